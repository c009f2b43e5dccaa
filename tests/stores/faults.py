# SPDX-License-Identifier: Apache-2.0
"""A proxy between a client and an HTTP server that does what networks and servers do on bad days.

Which request suffers what is a function of the seed and the order of requests.  `count` says how often each fault
came; `requests` lists what was asked for.  Only answers to ranges (reads) suffer, unless `all_requests`."""
import asyncio
import random
import threading

FAULTS = ("refuse", "reset", "stall", "truncate", "short", "extend", "status500", "slow_down", "error_body",
          "wrong_range", "redirect", "delay", "empty", "trickle")
ERROR = b"<?xml version='1.0'?><Error><Code>InternalError</Code><Message>no</Message></Error>"


class Proxy:
    def __init__(self, upstream, seed=0, rate=0.0, limit=0, delay=0.2, faults=FAULTS, all_requests=False):
        self.upstream, self.rate, self.limit, self.delay = upstream, rate, limit, delay
        self.random, self.faults, self.all_requests = random.Random(seed), faults, all_requests
        self.count, self.requests, self.down = {}, [], False
        self.sizes = []             # of the ranges that were asked for, 0: not a range
        self.from_start = {}        # path -> ranges that began with its first byte
        self.gather = 0             # answers wait until so many ranges are asked for at once, or 30 s
        self.gathers = bool         # a function of a range's size: does it wait?
        self.pending = self.peak = 0
        self.hold = None            # a function of the number of requests so far: this one gets no answer
        self.service = 0            # seconds that an answer takes, one after another
        self.waiting = []           # requests that the server had, each time one came
        self.drop = ()              # names of headers that answers do not have
        self.override = None        # a function of (method, path, headers) -> bytes of a whole answer, or None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, daemon=True)

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *why):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)

    def injected(self):
        return sum(self.count.values())

    def _main(self):
        asyncio.run(self._serve())

    async def _serve(self):
        self._loop, self._stop, self._turn = asyncio.get_running_loop(), asyncio.Event(), asyncio.Lock()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, limit=1 << 20)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()

    async def _connection(self, reader, writer):
        try:
            while await self._request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def _choose(self, head):
        suffers = self.all_requests or b"\r\nrange:" in head.lower()
        if not suffers or self.injected() >= self.limit or self.random.random() >= self.rate:
            return None
        fault = self.faults[self.random.randrange(len(self.faults))]
        self.count[fault] = self.count.get(fault, 0) + 1
        return fault

    async def _request(self, reader, writer):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return False
        if self.down:
            return False
        method, path = head.split(b" ", 2)[:2]
        self.requests.append((method.decode(), path.decode()))
        self.sizes.append(asked_for(head))
        if b"range: bytes=0-" in head.lower():
            self.from_start[path.decode()] = self.from_start.get(path.decode(), 0) + 1
        body = await reader.readexactly(length_of(head))
        if self.hold and self.hold(len(self.requests)):
            await self._stop.wait()
            return False
        if self.gather and self.gathers(self.sizes[-1]):
            await self._gathered()
        if self.service:
            await self._served()
        fault = self._choose(head)
        if self.override:
            own = self.override(method.decode(), path.decode(), head)
            if own is not None:
                writer.write(own)
                await writer.drain()
                return True
        if fault == "refuse":
            return False
        if fault in ("status500", "slow_down", "error_body", "redirect", "empty"):
            return await self._instead(fault, path, writer)
        if fault == "delay":
            await asyncio.sleep(self.delay)
        answer, data = await self._ask(method, head, body)
        return await self._answer(fault, answer, data, writer)

    async def _served(self):
        self.pending += 1
        self.waiting.append(self.pending)
        try:
            async with self._turn:
                await asyncio.sleep(self.service)
        finally:
            self.pending -= 1

    async def _gathered(self):
        self.pending += 1
        self.peak = max(self.peak, self.pending)
        if self.pending >= self.gather:
            self.gather = 0
        end = self._loop.time() + 30
        while self.gather and not self._stop.is_set() and self._loop.time() < end:
            await asyncio.sleep(0.01)
        self.pending -= 1

    async def _ask(self, method, head, body):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.upstream, limit=1 << 20)
        lines = head.split(b"\r\n")
        lines = [line for line in lines if not line.lower().startswith(b"connection:")]
        writer.write(b"\r\n".join([lines[0], b"Connection: close", *lines[1:]]) + body)
        await writer.drain()
        answer = await reader.readuntil(b"\r\n\r\n")
        data = b"" if method == b"HEAD" else await reader.read()
        writer.close()
        drop = (b"connection:", *(name.lower().encode() + b":" for name in self.drop))
        lines = [line for line in answer.split(b"\r\n") if not line.lower().startswith(drop)]
        return b"\r\n".join(lines), dechunk(answer, data)

    async def _instead(self, fault, path, writer):
        if fault == "empty":
            writer.write(b"HTTP/1.1 206 Partial Content\r\nContent-Length: 0\r\n\r\n")
        elif fault == "status500":
            writer.write(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")
        elif fault == "slow_down":
            writer.write(b"HTTP/1.1 503 Slow Down\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n")
        elif fault == "redirect":       # to the same place, as a bucket that is being moved does
            writer.write(b"HTTP/1.1 307 Temporary Redirect\r\nContent-Length: 0\r\n\r\n" if self.signed else
                         b"HTTP/1.1 302 Found\r\nLocation: " + path + b"\r\nContent-Length: 0\r\n\r\n")
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n" % len(ERROR) + ERROR)
        await writer.drain()
        return True

    signed = False

    async def _answer(self, fault, answer, data, writer):
        half = data[:len(data) // 2]
        if fault in ("reset", "truncate", "stall"):
            writer.write(set_length(answer, len(data)) + half)
            await writer.drain()
            if fault == "stall":
                await asyncio.sleep(3)
            elif fault == "reset":
                writer.transport.abort()
            return False
        if fault == "trickle":
            writer.write(set_length(answer, len(data)))
            for i in range(0, min(len(data), 20)):
                writer.write(data[i:i + 1])
                await writer.drain()
                await asyncio.sleep(0.15)
            return False
        if fault == "short":
            data = half
        elif fault == "extend":
            data += b"x" * 100
        elif fault == "wrong_range":
            answer = answer.replace(b"ontent-Range: bytes ", b"ontent-Range: bytes 1").replace(b"ontent-range: bytes ", b"ontent-range: bytes 1")
        writer.write(set_length(answer, len(data)) + data)
        await writer.drain()
        return True


def asked_for(head):
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"range: bytes="):
            first, last = line.split(b"=")[1].split(b"-")
            return int(last) - int(first) + 1
    return 0


def length_of(head):
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            return int(line.split(b":")[1])
    return 0


def set_length(answer, n):
    lines = [line for line in answer.split(b"\r\n")[:-2]
             if not line.lower().startswith((b"content-length:", b"transfer-encoding:"))]
    return b"\r\n".join([*lines, b"Content-Length: %d" % n, b"", b""])


def dechunk(answer, data):
    if b"transfer-encoding: chunked" not in answer.lower():
        return data
    out = b""
    while data:
        size, data = data.split(b"\r\n", 1)
        n = int(size, 16)
        out, data = out + data[:n], data[n + 2:]
        if not n:
            break
    return out
