# SPDX-License-Identifier: Apache-2.0
"""A small client of Azure Blob for tests: containers and blobs by signed requests, in the standard library alone.

It is written apart from the C one, so that both would have to be wrong in the same way."""
import base64
import datetime
import hashlib
import hmac
import http.client
import re
import urllib.parse
import xml.sax.saxutils

VERSION = "2021-12-02"


class Azure:
    def __init__(self, port, account, key):
        self.port, self.account, self.key = port, account, key
        self.endpoint = f"http://127.0.0.1:{port}/{account}"

    def at(self, port):
        """The connection string of this account, by way of a port."""
        return f"AccountName={self.account};AccountKey={self.key};BlobEndpoint=http://127.0.0.1:{port}/{self.account};"

    def _hmac(self, text):
        return base64.b64encode(hmac.new(base64.b64decode(self.key), text.encode(), hashlib.sha256).digest()).decode()

    def sas(self, permissions="rwdlac", minutes=60):
        """A token of the account for its containers and blobs."""
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=minutes)
        said = {"sv": VERSION, "ss": "b", "srt": "sco", "sp": permissions, "se": end.strftime("%Y-%m-%dT%H:%M:%SZ")}
        text = "\n".join([self.account, said["sp"], said["ss"], said["srt"], "", said["se"], "", "", said["sv"], "", ""])
        return urllib.parse.urlencode({**said, "sig": self._hmac(text)})

    def request(self, method, path, query=None, body=b"", headers=()):
        path = f"/{self.account}" + urllib.parse.quote(path, safe="/-_.~")
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
        own = {"x-ms-date": now, "x-ms-version": VERSION, **dict(headers)}
        lines = [method, "", "", str(len(body)) if body else "", "", "", "", "", "", "", "", ""]
        lines += [f"{name}:{own[name]}" for name in sorted(own)]
        lines += [f"/{self.account}{path}", *(f"{name}:{value}" for name, value in sorted((query or {}).items()))]
        own["Authorization"] = f"SharedKey {self.account}:{self._hmac(chr(10).join(lines))}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path + ("?" + urllib.parse.urlencode(query) if query else ""), body=body or None, headers=own)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        assert answer.status < 300, (method, path, answer.status, data[:300])
        return data

    def make_container(self, name):
        self.request("PUT", f"/{name}", {"restype": "container"})

    def put(self, container, name, data):
        self.request("PUT", f"/{container}/{name}", body=data, headers={"x-ms-blob-type": "BlockBlob"})

    def get(self, container, name):
        return self.request("GET", f"/{container}/{name}")

    def delete(self, container, name):
        self.request("DELETE", f"/{container}/{name}")

    def names(self, container, **query):
        text = self.request("GET", f"/{container}", {"restype": "container", "comp": "list", **query}).decode()
        return [xml.sax.saxutils.unescape(n) for n in re.findall(r"<Blob><Name>(.*?)</Name>", text)]
