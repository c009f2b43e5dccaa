# SPDX-License-Identifier: Apache-2.0
"""Real servers for tests, on loopback: OpenStack Swift with its S3 API, nginx for HTTP and TLS, Azurite for Azure Blob."""
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from ports import free_port  # noqa: E402


def wait_for(port, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"nothing listens on port {port}")


class Group:
    """Processes that end together."""

    def __init__(self, folder):
        self.folder, self.processes = pathlib.Path(folder), []

    def run(self, name, *command, **env):
        log = open(self.folder / f"{name}.log", "wb")
        self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True,
                                               cwd=self.folder, env={**os.environ, **env}))

    def stop(self):
        for p in self.processes:
            p.terminate()
        for p in self.processes:
            try:
                p.wait(20)
            except subprocess.TimeoutExpired:
                p.kill()


BACK = """[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
user = {user}
swift_dir = {folder}
devices = {folder}/srv
mount_check = false
log_level = WARNING
container_update_timeout = 60
node_timeout = 60
conn_timeout = 20
[pipeline:main]
pipeline = {name}-server
[app:{name}-server]
use = egg:swift#{name}
"""
FRONT = """[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
user = {user}
swift_dir = {folder}
log_level = WARNING
[pipeline:main]
pipeline = catch_errors cache s3api tempauth slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
node_timeout = 60
recoverable_node_timeout = 60
conn_timeout = 20
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:{memcached}
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
"""


RINGS = """
import sys
from swift.common.ring import RingBuilder
for name, port in (a.split(":") for a in sys.argv[1:]):
    b = RingBuilder(4, 1, 1)
    b.add_dev({"id": 0, "region": 1, "zone": 1, "ip": "127.0.0.1", "port": int(port), "device": "d1", "weight": 1.0,
               "replication_ip": "127.0.0.1", "replication_port": int(port), "meta": ""})
    b.rebalance()
    b.get_ring().save(name + ".ring.gz")
"""


def swift_is_there():
    return all(shutil.which(p) for p in ("swift-proxy-server", "swift-object-server", "swift-ring-builder", "memcached"))


def start_swift(folder):
    """The S3 server's port and what stops it.  Key test:tester, secret testing, region us-east-1, path style."""
    folder, user = pathlib.Path(folder), subprocess.check_output(["id", "-un"], text=True).strip()
    (folder / "srv" / "d1").mkdir(parents=True)
    (folder / "swift.conf").write_text("[swift-hash]\nswift_hash_path_prefix = a\nswift_hash_path_suffix = b\n")
    group, port, cache = Group(folder), free_port(), free_port()
    group.run("memcached", "memcached", "-l", "127.0.0.1", "-p", str(cache), "-m", "64", "-u", user)
    backs = {name: free_port() for name in ("object", "container", "account")}
    subprocess.run(["/usr/bin/python3", "-c", RINGS, *(f"{n}:{p}" for n, p in backs.items())], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL)
    for name, back in backs.items():
        (folder / f"{name}.conf").write_text(BACK.format(port=back, user=user, folder=folder, name=name))
        group.run(name, f"swift-{name}-server", str(folder / f"{name}.conf"))
    (folder / "proxy.conf").write_text(FRONT.format(port=port, user=user, folder=folder, memcached=cache))
    group.run("proxy", "swift-proxy-server", str(folder / "proxy.conf"))
    wait_for(port)
    return port, group


NGINX = """daemon off; master_process off; pid {folder}/pid; error_log stderr warn;
events {{ worker_connections 512; }}
http {{ access_log off; sendfile on; tcp_nopush off; tcp_nodelay on;
client_body_temp_path {folder}/t; proxy_temp_path {folder}/t; fastcgi_temp_path {folder}/t; uwsgi_temp_path {folder}/t; scgi_temp_path {folder}/t;
server {{ listen 127.0.0.1:{port}; root {root}; }}
server {{ listen 127.0.0.1:{tls} ssl; ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem; root {root}; }} }}
"""


def nginx_program():
    return shutil.which("nginx") or ("/usr/sbin/nginx" if os.access("/usr/sbin/nginx", os.X_OK) else None)


def start_nginx(folder, root):
    """Ports of HTTP and TLS, and what stops it; the certificate is folder/cert.pem, for 127.0.0.1."""
    folder, group = pathlib.Path(folder), Group(folder)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"],
                   cwd=folder, check=True, stderr=subprocess.DEVNULL)
    port, tls = free_port(), free_port()
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, root=root, port=port, tls=tls))
    group.run("nginx", nginx_program(), "-c", str(folder / "nginx.conf"), "-p", str(folder))
    wait_for(port)
    return port, tls, group


def azurite_program():
    """Where tools/setup.sh puts it, or on the path."""
    own = pathlib.Path(sys.prefix) / "azurite" / "node_modules" / ".bin" / "azurite-blob"
    return str(own) if own.exists() and shutil.which("node") else shutil.which("azurite-blob")


def start_azurite(folder, accounts):
    """The port and what stops it.  accounts: {name: key in base64}."""
    group, port = Group(folder), free_port()
    group.run("azurite", azurite_program(), "--silent", "--inMemoryPersistence", "--disableTelemetry",
              "--blobHost", "127.0.0.1", "--blobPort", str(port),
              AZURITE_ACCOUNTS=";".join(f"{name}:{key}" for name, key in accounts.items()))
    wait_for(port)
    return port, group
