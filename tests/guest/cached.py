# SPDX-License-Identifier: GPL-2.0
"""A client of lsmemcached, for cached.sh and ../daemon/guest-cached.sh: cached.py SOCKET WHAT ITEMS SEED [FILE].

WHAT is mix: pipelines of random commands on several connections, each with its own keys; every answer has to be that
of a model, which has a dictionary. detail: the same, of a server with -D -, whose counters by prefix have to be those
of the model, too. fill: sets all items; check: they are there; flushed: none is. load: sets items
over and over until the server is gone, and writes to FILE what was acknowledged; verify: that is there, or what was
set after it. crowd: a hundred connections at once, with keys of their own, and counters that all of them add to.
"""

import json
import os
import random
import socket
import sys
import threading
from dataclasses import dataclass, field

CONNECTIONS = 4
KEYS = 40		# of each connection
PIPELINE = 60		# most commands in one
LONG_BYTES = 100_000
LONG_GET = 20_000	# most keys in a line
WAIT = float(os.environ.get("LSMEM_WAIT", "60"))	# seconds for an answer
CROWD = 100		# connections
COUNTERS = 2		# that all of them add to
ADDITIONS = 10		# in a round


@dataclass
class Item:
    """What the model knows of an item."""

    value: bytes
    flags: int
    cas: int = 0	# 0: not asked for since it was changed


@dataclass
class Model:
    """A connection, and the items that it has set."""

    path: str
    name: str
    dice: random.Random
    items: dict[bytes, Item] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("get", "hit", "set", "del"), 0))
    request: bytes = b""
    answer: bytes = b""

    def __post_init__(self) -> None:
        self.socket = connect(self.path)
        self.replies = self.socket.makefile("rb")
        self.pieces = random.Random(self.dice.random())
        self.sender = threading.Thread()

    def key(self) -> bytes:
        return b"%s-%d" % (self.name.encode(), self.dice.randrange(KEYS))

    def value(self) -> bytes:
        most = LONG_BYTES if self.dice.random() < 0.02 else self.dice.choice((0, 20, 400, 3000))
        return self.dice.randbytes(self.dice.randint(0, most))

    def add(self, request: bytes, answer: bytes) -> None:
        """One command, and what the server has to say."""
        self.request += request
        self.answer += answer

    def seen(self, key: bytes) -> None:
        """A get of the key is counted."""
        self.counts["get"] += 1
        self.counts["hit"] += key in self.items

    def store(self, verb: str) -> None:
        self.counts["set"] += 1
        key, value, flags = self.key(), self.value(), self.dice.randrange(1 << 32)
        old = self.items.get(key)
        quiet = b" noreply" if self.dice.random() < 0.2 else b""
        self.request += b"%s %s %d 0 %d%s\r\n%s\r\n" % (verb.encode(), key, flags, len(value), quiet, value)
        stored = {"set": True, "add": old is None}.get(verb, old is not None)
        if not quiet:
            self.answer += b"STORED\r\n" if stored else b"NOT_STORED\r\n"
        if not stored:
            return
        if verb == "append":
            value, flags = old.value + value, old.flags
        elif verb == "prepend":
            value, flags = value + old.value, old.flags
        self.items[key] = Item(value, flags)

    def get(self, most: int = 90) -> None:
        keys = [self.key() for _ in range(self.dice.randint(1, most))]
        self.request += b"get %s\r\n" % b" ".join(keys)
        for key in keys:
            self.seen(key)
        found = [(key, item) for key in keys if (item := self.items.get(key))]
        self.answer += b"".join(b"VALUE %s %d %d\r\n%s\r\n" % (key, item.flags, len(item.value), item.value)
                                for key, item in found) + b"END\r\n"

    def delete(self) -> None:
        key = self.key()
        self.counts["del"] += 1
        self.add(b"delete %s\r\n" % key, b"DELETED\r\n" if self.items.pop(key, None) else b"NOT_FOUND\r\n")

    def touch(self) -> None:
        key = self.key()
        self.add(b"touch %s 1000\r\n" % key, b"TOUCHED\r\n" if key in self.items else b"NOT_FOUND\r\n")

    def count(self) -> None:
        key, start, step = self.key(), self.dice.randrange(1 << 64), self.dice.randrange(1 << 64)
        self.add(b"set %s 1 0 %d\r\n%d\r\n" % (key, len(b"%d" % start), start), b"STORED\r\n")
        self.counts["set"] += 1
        if self.dice.random() < 0.5:
            total = (start + step) % (1 << 64)
            self.add(b"incr %s %d\r\n" % (key, step), b"%d\r\n" % total)
        else:
            total = max(start - step, 0)
            self.add(b"decr %s %d\r\n" % (key, step), b"%d\r\n" % total)
        self.items[key] = Item((b"%d" % total).ljust(len(b"%d" % start)), 1)

    def meta(self) -> None:
        key, value = self.key(), self.value()
        if self.dice.random() < 0.5:
            self.counts["set"] += 1
            self.add(b"ms %s %d F7 O1 k\r\n%s\r\n" % (key, len(value), value), b"HD O1 k%s\r\n" % key)
            self.items[key] = Item(value, 7)
            return
        self.seen(key)
        if item := self.items.get(key):
            self.add(b"mg %s s f v q k\r\n" % key, b"VA %d s%d f%d k%s\r\n%s\r\n" % (
                len(item.value), len(item.value), item.flags, key, item.value))
        else:
            self.add(b"mg %s v q\r\nmn\r\n" % key, b"MN\r\n")

    def cas(self) -> None:
        """Asks for the version first, in a pipeline of its own."""
        key = self.key()
        self.run()
        self.seen(key)
        self.counts["set"] += 3 if key in self.items else 1
        self.socket.sendall(b"gets %s\r\n" % key)
        item = self.items.get(key)
        if item is None:
            self.expect(b"END\r\n")
            self.add(b"cas %s 0 0 1 1\r\nx\r\n" % key, b"NOT_FOUND\r\n")
            return
        words = self.replies.readline().split()
        self.expect(item.value + b"\r\nEND\r\n")
        version = int(words[4])
        self.add(b"cas %s 0 0 1 %d\r\nx\r\n" % (key, version + 1), b"EXISTS\r\n")
        self.add(b"cas %s 3 0 1 %d\r\ny\r\n" % (key, version), b"STORED\r\n")
        self.add(b"cas %s 0 0 1 %d\r\nz\r\n" % (key, version), b"EXISTS\r\n")
        self.items[key] = Item(b"y", 3)

    def expect(self, wanted: bytes) -> None:
        got = self.replies.read(len(wanted))
        if got != wanted:
            at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), len(wanted)))
            sys.exit(f"{self.name}: byte {at} of {len(wanted)}: {got[max(at - 40, 0):at + 60]!r}, "
                     f"not {wanted[max(at - 40, 0):at + 60]!r}")

    def send(self) -> None:
        """Sends the pipeline; at times in pieces. The server waits until its answers are read, so a thread does it."""
        request, self.request = self.request, b""
        self.sender = threading.Thread(target=self._send, args=(request,))
        self.sender.start()

    def _send(self, request: bytes) -> None:
        while request:
            length = len(request) if self.pieces.random() < 0.5 else self.pieces.randint(1, len(request))
            self.socket.sendall(request[:length])
            request = request[length:]

    def receive(self) -> None:
        """Compares the answers."""
        answer, self.answer = self.answer, b""
        self.expect(answer)
        self.sender.join()

    def run(self) -> None:
        """Sends what there is, and compares the answers."""
        self.send()
        self.receive()

    def any(self) -> None:
        what = self.dice.choices((lambda: self.store("set"), lambda: self.store("add"),
                                  lambda: self.store("replace"), lambda: self.store("append"),
                                  lambda: self.store("prepend"), self.get, self.delete, self.touch, self.count,
                                  self.meta, self.cas), (8, 2, 2, 1, 1, 6, 2, 1, 2, 6, 1))[0]
        what()


def connect(path: str) -> socket.socket:
    """A connection to the server, which listens."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(WAIT)
    connection.connect(path)
    return connection


def mix(path: str, commands: int, seed: int) -> list[Model]:
    models = [Model(path, f"c{number}", random.Random(f"{seed} {number}")) for number in range(CONNECTIONS)]
    done = 0
    # Lines that are longer than a buffer, and answers for which the server has to wait
    for _ in range(KEYS):
        models[0].store("set")
    for _ in range(3):
        models[0].get(LONG_GET)
    models[0].run()
    while done < commands:
        for model in models:
            for _ in range(model.dice.randint(1, PIPELINE)):
                model.any()
                done += 1
            model.send()
        for model in models:
            model.receive()
    return models


def detail(path: str, commands: int, seed: int) -> None:
    models = mix(path, commands, seed)
    asks = models[-1]
    asks.socket.sendall(b"stats detail dump\r\n")
    found = {}
    while (line := asks.replies.readline().decode()).startswith("PREFIX "):
        _, name, *numbers = line.split()
        found[name] = dict(zip(numbers[::2], map(int, numbers[1::2])))
    wanted = {model.name: model.counts for model in models}
    if line != "END\r\n" or found != wanted:
        sys.exit(f"{line!r}: {found}, not {wanted}")


def lines(path: str, items: int, seed: int, what: str) -> None:
    model = Model(path, "fill", random.Random(seed))
    for number in range(items):
        key, value = b"item-%d" % number, model.dice.randbytes(model.dice.randint(0, 2000))
        if what == "fill":
            model.add(b"set %s %d 0 %d\r\n%s\r\n" % (key, number, len(value), value), b"STORED\r\n")
        elif what == "check":
            model.add(b"get %s\r\n" % key, b"VALUE %s %d %d\r\n%s\r\nEND\r\n" % (key, number, len(value), value))
        else:
            model.add(b"get %s\r\n" % key, b"END\r\n")
        if number % PIPELINE == 0:
            model.run()
    model.run()


def version_value(item: int, version: int) -> bytes:
    return random.Random(f"{item} {version}").randbytes(version * 37 % 2000)


def load(path: str, items: int, seed: int, file: str) -> None:
    """The versions are consecutive: sent[item] is the last that was sent, acked[item] that was acknowledged."""
    dice, connection = random.Random(seed), connect(path)
    replies = connection.makefile("rb")
    sent, acked = [0] * items, [0] * items
    try:
        while True:
            batch = [dice.randrange(items) for _ in range(dice.randint(1, PIPELINE))]
            request = b""
            versions = []
            for item in batch:
                sent[item] += 1
                versions.append(sent[item])
                value = version_value(item, sent[item])
                request += b"set load-%d %d 0 %d\r\n%s\r\n" % (item, sent[item], len(value), value)
            connection.sendall(request)
            for item, version in zip(batch, versions):
                line = replies.readline()
                if not line:
                    raise ConnectionError
                if line != b"STORED\r\n":
                    sys.exit(f"{line!r}")
                acked[item] = version
    except (ConnectionError, TimeoutError):
        pass
    with open(file, "w", encoding="ascii") as out:
        json.dump({"sent": sent, "acked": acked}, out)
    print(sum(acked))


def verify(path: str, items: int, file: str) -> None:
    connection = connect(path)
    replies = connection.makefile("rb")
    with open(file, encoding="ascii") as source:
        known = json.load(source)
    for item in range(items):
        connection.sendall(b"get load-%d\r\n" % item)
        words = replies.readline().split()
        version = 0
        if words[0] == b"VALUE":
            version, length = int(words[2]), int(words[3])
            if replies.read(length) != version_value(item, version):
                sys.exit(f"item {item}: the value is not that of version {version}")
            replies.readline()
            replies.readline()
        if not known["acked"][item] <= version <= known["sent"][item]:
            sys.exit(f"item {item}: version {version}, acknowledged {known['acked'][item]}, sent {known['sent'][item]}")


def crowd(path: str, rounds: int, seed: int) -> None:
    """Until they have done so many rounds on the average. The slowest has done a fourth of them then."""
    models = [Model(path, f"crowd{number}", random.Random(f"{seed} {number}")) for number in range(CROWD)]
    done, added, wrong = [0] * CROWD, [0] * COUNTERS, []
    lock, start = threading.Lock(), threading.Barrier(CROWD)

    def play(number: int, model: Model) -> None:
        start.wait()
        while sum(done) < CROWD * rounds and not wrong:
            steps = [(model.dice.randrange(COUNTERS), model.dice.randrange(1000)) for _ in range(ADDITIONS)]
            for step in steps:
                model.add(b"incr sum%d %d noreply\r\n" % step, b"")
            for _ in range(5):
                model.any()
            model.run()
            with lock:
                for counter, step in steps:
                    added[counter] += step
                done[number] += 1

    def guarded(number: int, model: Model) -> None:
        try:
            play(number, model)
        except (SystemExit, OSError) as error:
            wrong.append(error)

    for counter in range(COUNTERS):
        models[0].add(b"set sum%d 0 0 20\r\n%020d\r\n" % (counter, 0), b"STORED\r\n")
    models[0].run()
    threads = [threading.Thread(target=guarded, args=each) for each in enumerate(models)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        sys.exit(f"{wrong[0]}")
    for counter, total in enumerate(added):
        models[0].add(b"get sum%d\r\n" % counter, b"VALUE sum%d 0 20\r\n%-20d\r\nEND\r\n" % (counter, total))
    models[0].run()
    if 4 * min(done) < rounds:
        sys.exit(f"starved: {min(done)} rounds of one connection, {max(done)} of another")


def main() -> None:
    path, what, items, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    if what == "mix":
        mix(path, items, seed)
    elif what == "detail":
        detail(path, items, seed)
    elif what == "load":
        load(path, items, seed, sys.argv[5])
    elif what == "verify":
        verify(path, items, sys.argv[5])
    elif what == "crowd":
        crowd(path, items, seed)
    else:
        lines(path, items, seed, what)


if __name__ == "__main__":
    main()
