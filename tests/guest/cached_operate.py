# SPDX-License-Identifier: GPL-2.0
"""Commands of who operates lsmemcached, for cached.sh: cached_operate.py SOCKET WHAT ITEMS SEED.

WHAT is dump: all items, while other clients set, add and remove some, and one does not read its dump. limits: the
crawler, the limit of memory and what is refused; a cache whose store has 128 MiB. conns: stats conns, of a server that
obeys debugtime; ITEMS connections, while others come and go. prefixes: stats detail.
"""

import base64
import random
import socket
import sys
import threading
import time
from typing import BinaryIO, Callable
from urllib.parse import unquote_to_bytes

sys.dont_write_bytecode = True
from cached import PIPELINE, WAIT, Model, connect  # noqa: E402  # pylint: disable=wrong-import-position

LIMIT_MIB = 64
BIG = 1_000_000
EXPIRED = 1000
PREFIXES = 1024
REFUSED = "MEMLIMIT_ADJUST_FAILED"
BAD_CLASS = "BADCLASS invalid class id"
BAD_FORMAT = "CLIENT_ERROR bad command line format"
DISABLED = "CLIENT_ERROR lru crawler disabled"
NO_ITEMS = "NOTSTARTED no items to crawl"

ANSWERS = (
    ("cache_memlimit", "ERROR"), ("cache_memlimit x", "ERROR"),
    ("cache_memlimit 7", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"),
    ("cache_memlimit 1000000001", f"{REFUSED} input value is megabytes not bytes"),
    ("cache_memlimit 1000000", f"{REFUSED} out of bounds or unable to adjust"),
    (f"cache_memlimit {LIMIT_MIB}", "OK"),
    ("slabs", "ERROR"), ("slabs x", "ERROR"), ("slabs reassign 1 2", "CLIENT_ERROR slab reassignment disabled"),
    ("slabs automove 0", "OK"), ("slabs automove 1", "ERROR"), ("slabs automove x", BAD_FORMAT),
    ("slabs automove ratio 0.8", "ERROR"),
    ("lru mode flat", "ERROR"), ("lru tune 10 25 0.1 2.0", "ERROR"), ("lru temp_ttl 60", "ERROR"),
    ("lru_crawler", "ERROR"), ("lru_crawler x", "ERROR"), ("lru_crawler x 1", "ERROR"),
    ("lru_crawler sleep x", BAD_FORMAT), ("lru_crawler tocrawl -1", BAD_FORMAT),
    ("lru_crawler sleep 1000001", "CLIENT_ERROR sleep must be one second or less"),
    ("lru_crawler crawl 64", BAD_CLASS), ("lru_crawler metadump 0", BAD_CLASS), ("lru_crawler mgdump 1,x", BAD_CLASS),
    ("lru_crawler metadump 2,3", NO_ITEMS), ("lru_crawler mgdump ,", NO_ITEMS), ("lru_crawler crawl 63", NO_ITEMS),
    ("lru_crawler disable", "OK"), ("lru_crawler crawl all", DISABLED), ("lru_crawler metadump all", DISABLED),
    ("lru_crawler mgdump all", DISABLED), ("verbosity 0", "OK"),
)


def ask(connection: socket.socket, replies: BinaryIO, request: bytes, last: bytes) -> list[bytes]:
    """Lines of an answer up to one that begins so, without it."""
    connection.sendall(request + b"\r\n")
    lines = []
    while not (line := replies.readline()).startswith(last):
        if not line.endswith(b"\n") or line.startswith((b"ERROR", b"CLIENT_ERROR", b"BADCLASS", b"BUSY")):
            sys.exit(f"{request!r}: {line!r}")
        lines.append(line)
    return lines


def stat_of(model: Model, name: bytes, what: bytes = b"stats") -> bytes:
    """The value of a line of stats."""
    return {line.split()[1]: line.split()[2] for line in ask(model.socket, model.replies, what, b"END")}[name]


def churn(path: str, seed: int, keys: list[bytes], stop: threading.Event) -> None:
    """Sets the keys anew, and adds and removes others."""
    model = Model(path, "churn", random.Random(seed))
    while not stop.is_set():
        for _ in range(PIPELINE):
            value = model.value()[:3000]
            model.add(b"set %s 0 0 %d\r\n%s\r\n" % (model.dice.choice(keys), len(value), value), b"STORED\r\n")
            model.store("set")
            model.delete()
        model.run()


def check_lines(model: Model, binary: set[bytes]) -> None:
    """What lines of metadump say has to be what mg says."""
    for line in ask(model.socket, model.replies, b"lru_crawler metadump 2,1", b"END"):
        words = dict(word.split(b"=") for word in line.split())
        key = unquote_to_bytes(words[b"key"])
        if key in binary:
            continue
        model.socket.sendall(b"mg %s c t s\r\n" % key)
        version, left, length = (int(word[1:]) for word in model.replies.readline().split()[1:])
        now, expires = time.time(), int(words[b"exp"])
        if (int(words[b"cas"]) != version or int(words[b"size"]) != len(key) + length + 16 or words[b"cls"] != b"1" or
                not now - 600 < int(words[b"la"]) <= now + 1 or words[b"fetch"] != b"no" or
                (expires != -1 if left == -1 else abs(expires - now - left) > 2)):
            sys.exit(f"{line!r}: version {version}, {left} s left, {length} bytes")


def keys_of(verb: bytes, lines: list[bytes]) -> list[bytes]:
    """The keys that a dump names."""
    if verb == b"metadump":
        return [unquote_to_bytes(line.split()[0][4:]) for line in lines]
    return [base64.b64decode(words[1]) if len(words) > 2 else words[1]
            for words in (line[:-2].split(b" ") for line in lines)]


def dump(path: str, items: int, seed: int) -> None:
    dice = random.Random(seed)
    # Bytes that a key may have, with those that are encoded
    letters = bytes(byte for byte in range(0x21, 0x100) if byte != 0x7f)
    keys = [b"%d-" % number + bytes(dice.choices(letters, k=dice.randint(0, 200))) for number in range(items)]
    binary = {b"\0 \n%d" % number for number in range(20)}
    model = Model(path, "dump", dice)
    for key in keys:
        model.add(b"set %s 0 %d 3\r\nabc\r\n" % (key, dice.choice((0, 1000))), b"STORED\r\n")
    for key in binary:
        model.add(b"ms %s 1 b\r\nx\r\n" % base64.b64encode(key), b"HD\r\n")
    model.add(b"set gone 0 -1 1\r\nx\r\n", b"STORED\r\n")
    model.run()
    check_lines(model, binary)
    # One that asks for everything over and over, and does not read
    idler = connect(path)
    idler.settimeout(0.2)
    try:
        while True:
            idler.sendall(b"lru_crawler metadump all\r\n" * 1000)
    except TimeoutError:
        pass
    stop = threading.Event()
    churner = threading.Thread(target=churn, args=(path, seed, keys[::3], stop))
    churner.start()
    wanted = sorted([*keys, *binary])
    try:
        for verb, last in ((b"metadump", b"END"), (b"mgdump", b"EN")):
            for which in (b"all", b"hash", b"1"):
                # Commands before and after it are answered in turn
                request = b"get none\r\nlru_crawler %s %s\r\nversion" % (verb, which)
                lines = ask(model.socket, model.replies, request, b"VERSION")
                if lines.pop(0) != b"END\r\n" or lines.pop() != last + b"\r\n":
                    sys.exit(f"{request!r}: the answer has another begin or end")
                there = sorted(key for key in keys_of(verb, lines) if not key.startswith(b"churn-"))
                if there != wanted:
                    sys.exit(f"{request!r}: {len(there)} keys, {len(set(there))} different, {len(wanted)} wanted")
    finally:
        stop.set()
        churner.join()
        idler.close()


def limits(path: str) -> None:
    model = Model(path, "limits", random.Random(0))
    until = time.monotonic() + WAIT

    def stat(name: bytes, what: bytes = b"stats") -> bytes:
        return stat_of(model, name, what)

    def wait_crawl() -> None:
        while stat(b"lru_crawler_running") != b"0":
            if time.monotonic() > until:
                sys.exit("a crawl does not end")
            time.sleep(0.01)

    for request, answer in ANSWERS:
        model.add(f"{request}\r\n".encode(), f"{answer}\r\n".encode())
    model.add(f"cache_memlimit {LIMIT_MIB} noreply\r\n".encode(), b"")
    model.run()
    if int(stat(b"limit_maxbytes")) != LIMIT_MIB << 20 or stat(b"lru_crawler", b"stats settings") != b"no":
        sys.exit("stats do not tell of the limit, or that the crawler is disabled")

    # While the crawler is disabled what has expired stays
    for number in range(EXPIRED):
        model.add(b"set expired-%d 0 -1 1\r\nx\r\n" % number, b"STORED\r\n")
    model.run()
    before = stat(b"crawler_items_checked")
    time.sleep(0.5)
    if stat(b"crawler_items_checked") != before or int(stat(b"curr_items")) < EXPIRED:
        sys.exit("a crawler that is disabled looks at items")
    # As slow as it can, and a few items only
    model.add(b"lru_crawler sleep 1000000\r\nlru_crawler tocrawl 3\r\nlru_crawler enable\r\nlru_crawler crawl all\r\n"
              b"lru_crawler crawl all\r\n", b"OK\r\n" * 4 + b"BUSY currently processing crawler request\r\n")
    model.run()
    wait_crawl()
    if int(stat(b"curr_items")) < EXPIRED // 2:
        sys.exit("the crawler does not sleep")
    model.add(b"lru_crawler sleep 0\r\nlru_crawler tocrawl 0\r\nlru_crawler crawl 1\r\n", b"OK\r\n" * 3)
    model.run()
    wait_crawl()
    if stat(b"curr_items") != b"0":
        sys.exit("items that have expired are there after a crawl")

    for number in range(2 * LIMIT_MIB - 20):
        model.add(b"set big%d 0 0 %d\r\n%s\r\n" % (number, BIG, bytes(BIG)), b"STORED\r\n")
        model.run()
    while int(stat(b"bytes")) > LIMIT_MIB << 20:
        if time.monotonic() > until:
            sys.exit("there are more bytes than the limit allows")
        time.sleep(0.01)


def list_conns(model: Model) -> list[dict[str, str]]:
    """What stats conns says of each descriptor, which have to be in order."""
    conns: dict[int, dict[str, str]] = {}
    for line in ask(model.socket, model.replies, b"stats conns", b"END"):
        _, name, value = line.decode().rstrip("\r\n").split(" ", 2)
        number, what = name.split(":")
        if what in conns.setdefault(int(number), {}):
            sys.exit(f"stats conns has {name} twice")
        conns[int(number)][what] = value
    if list(conns) != sorted(conns):
        sys.exit(f"stats conns is in no order: {list(conns)}")
    return list(conns.values())


def come_and_go(path: str, stop: threading.Event, came: list[int]) -> None:
    """Connections that the server closes."""
    while not stop.is_set():
        batch = [connect(path) for _ in range(20)]
        for connection in batch:
            connection.sendall(b"quit\r\n")
        for connection in batch:
            came.append(len(connection.recv(1)))
            connection.close()


def check_states(path: str, model: Model) -> list[socket.socket]:
    """One connection in each state, each of which is there in the end."""
    model.add(b"set large 0 0 %d\r\n%s\r\n" % (BIG, bytes(BIG)), b"STORED\r\n")
    model.run()
    kept = []
    for state, request in (("conn_read", b"get"), ("conn_nread", b"set a 0 0 6\r\n"),
                           ("conn_swallow", b"set a 0 0 2000000\r\n"), ("conn_mwrite", b"get large\r\n" * 8),
                           ("conn_closing", b"get large\r\n" * 2 + b"quit\r\n")):
        before = sum(conn["state"] == state for conn in list_conns(model))
        kept.append(connect(path))
        kept[-1].sendall(request)
        wait_until(lambda wanted=before + 1, name=state: sum(
            conn["state"] == name for conn in list_conns(model)) == wanted, f"no connection is in {state}")
    return kept


def wait_until(true: Callable[[], bool], wrong: str) -> None:
    until = time.monotonic() + WAIT
    while not true():
        if time.monotonic() > until:
            sys.exit(wrong)
        time.sleep(0.01)


def conns(path: str, number: int) -> None:
    model, stop = Model(path, "conns", random.Random(0)), threading.Event()
    came: list[int] = []
    kept = check_states(path, model)
    for listed in list_conns(model):
        listens = listed["state"] == "conn_listening"
        if (listed["addr"] != (f"unix:{path}" if listens else "?:<AF 0>") or
                listed.get("listen_addr") != (None if listens else f"unix:{path}")):
            sys.exit(f"{listed}: another address")
    listed = list_conns(model)
    if [sum(one["state"] == state for one in listed) for state in ("conn_listening", "conn_parse_cmd")] != [1, 1]:
        sys.exit(f"one listens, one asks: {listed}")
    # The clock of all threads but that of the others
    model.add(b"debugtime 1000\r\n", b"OK\r\n")
    model.run()
    wait_until(lambda: sum(int(one["secs_since_last_cmd"]) >= 1000 for one in list_conns(model)) == len(kept) + 1,
               "connections that do nothing are not idle")
    if any(one["state"] == "conn_parse_cmd" and int(one["secs_since_last_cmd"]) > 100 for one in list_conns(model)):
        sys.exit("the connection that asks is idle")
    wanted = number + sum(one["state"] == "conn_nread" for one in list_conns(model))
    for _ in range(number):
        kept.append(connect(path))
        kept[-1].sendall(b"set a 0 0 6\r\n")
    wait_until(lambda: sum(one["state"] == "conn_nread" for one in list_conns(model)) == wanted,
               "connections are missing")
    others = [threading.Thread(target=come_and_go, args=(path, stop, came)) for _ in range(2)]
    for thread in others:
        thread.start()
    try:
        for _ in range(20):
            if (found := sum(one["state"] == "conn_nread" for one in list_conns(model))) != wanted:
                sys.exit(f"{found} connections that send data, {wanted} wanted")
    finally:
        stop.set()
        for thread in others:
            thread.join()
    if len(came) < 100 or any(came):
        sys.exit(f"{len(came)} connections came and went")


def prefixes(path: str) -> None:
    model = Model(path, "prefixes", random.Random(0))
    others = [Model(path, f"other{number}", random.Random(0)) for number in range(8)]

    def check(wanted: dict[str, str]) -> None:
        lines = ask(model.socket, model.replies, b"stats detail dump", b"END")
        found = dict(line.decode("latin-1")[7:-2].split(" ", 1) for line in lines)
        if len(found) != len(lines) or found != wanted:
            sys.exit(f"{len(lines)} lines, {found}, not {wanted}")

    for word in ("", " x", " ON"):
        model.add(f"stats detail{word}\r\n".encode(), b"CLIENT_ERROR usage: stats detail on|off|dump\r\n")
    # Before it is on, keys without a delimiter, and other commands: nothing
    model.add(b"get a:1\r\nstats detail on\r\nget a b\r\nincr a:1 1\r\ntouch a:1 9\r\n",
              b"END\r\nOK\r\nEND\r\nNOT_FOUND\r\nNOT_FOUND\r\n")
    model.run()
    check({})
    # Each kind of command, by all workers
    for other in others:
        other.add(b"set a:1 0 0 1\r\nx\r\ngats 9 a:1 a:2\r\nquit\r\n", b"STORED\r\nVALUE a:1 0 1 ")
        other.send()
        other.receive()
        other.replies.read()
    model.add(b"mg a:1 T9 v\r\nmg a:1\r\nmg a:2\r\nmg a:2 T9\r\nmd a:1:2\r\nmd a:1\r\ndelete a:1 noreply\r\n",
              b"VA 1\r\nx\r\nHD\r\nEN\r\nEN\r\nNF\r\nHD\r\n")
    model.add(b"add a: 0 0 1\r\n123\r\nset a:1 0 0 2000000\r\n" + bytes(2_000_002),
              b"CLIENT_ERROR bad data chunk\r\nERROR\r\nSERVER_ERROR object too large for cache\r\n")
    model.add(b"ms :1 1\r\nx\r\nms %s 1 b ME\r\nx\r\nms a:1 2000000\r\n" % base64.b64encode(b"\n %:") +
              bytes(2_000_002), b"HD\r\nHD\r\nSERVER_ERROR object too large for cache\r\n")
    model.run()
    check({"a": "get 20 hit 10 set 11 del 3", "": "get 0 hit 0 set 1 del 0", "%0A%20%": "get 0 hit 0 set 1 del 0"})
    # What is found once is counted once, also if the one that finds it is told to make it anew
    model.add(b"stats reset\r\nms a:1 1\r\nx\r\nmd a:1 I\r\nmg a:1 v\r\nmg a:1 v\r\nmg a:2\r\n",
              b"RESET\r\nHD\r\nHD\r\nVA 1 X W\r\nx\r\nVA 1 Z X\r\nx\r\nEN\r\n")
    model.run()
    check({"a": "get 3 hit 2 set 1 del 1"})
    for name, wanted in ((b"cmd_get", b"3"), (b"get_hits", b"2"), (b"get_misses", b"1")):
        if (found := stat_of(model, name)) != wanted:
            sys.exit(f"{name!r} is {found!r}, not {wanted!r}")
    model.add(b"stats detail off\r\nget a:1\r\nstats reset\r\n", b"OK\r\nVALUE a:1 0 1\r\nx\r\nEND\r\nRESET\r\n")
    model.run()
    check({})
    # More than there is room for; after a reset there is
    for round_ in range(2):
        model.add(b"stats detail on\r\n", b"OK\r\n")
        for number in range(2 * PREFIXES):
            model.add(b"get %d-%d:\r\n" % (round_, number), b"END\r\n")
            if number % PIPELINE == 0:
                model.run()
        model.add(b"get %d-0:\r\n" % round_, b"END\r\n")
        model.run()
        check({f"{round_}-{number}": f"get {1 + (not number)} hit 0 set 0 del 0" for number in range(PREFIXES)})
        if (uncounted := stat_of(model, b"detail_uncounted")) != b"%d" % PREFIXES:
            sys.exit(f"{uncounted!r} commands are not counted")
        model.add(b"stats reset\r\n", b"RESET\r\n")
        model.run()
    # Workers that add the same prefixes at the same time: while they are forgotten, and then
    others = [Model(path, f"other{number}", random.Random(0)) for number in range(8)]
    for resets in (20, 0):
        for other in others:
            for number in range(200):
                other.add(b"get %d:1\r\n" % number, b"END\r\n")
            other.send()
        model.add(b"stats reset\r\n" * resets, b"RESET\r\n" * resets)
        model.run()
        for other in others:
            other.receive()
        if resets:
            model.add(b"stats reset\r\n", b"RESET\r\n")
            model.run()
    check({f"{number}": f"get {len(others)} hit 0 set 0 del 0" for number in range(200)})


def main() -> None:
    path, what, items, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    if what == "dump":
        dump(path, items, seed)
    elif what == "conns":
        conns(path, items)
    elif what == "prefixes":
        prefixes(path)
    else:
        limits(path)


if __name__ == "__main__":
    main()
