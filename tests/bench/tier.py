# SPDX-License-Identifier: GPL-2.0
"""Bench of stores whose capacity is larger than their memory: a group of tests/bench/inside."""

import json
import subprocess
from typing import Callable

from contest import BATCH, Contestant, Durable, Rounds, drives, result

MEMORY_MIB = 128
CAPACITY_MIB = 8 * MEMORY_MIB
FITS_MIB = 256		# of a store whose tier is not needed
RAW_MIB = 128
SIZE = 1024
HOT_TARGET = 0.5
COLD_TARGET = 0.9
FITS_TARGET = 0.98
TURN = 5		# a turn is so many times as long: what is in memory has to settle


def _turn(player: Contestant, seconds: float) -> Callable[[], float]:
    return lambda: player.round(seconds, 1)


def _random_reads(path: str, seconds: float) -> float:
    """Random reads of 4 KiB a second, as many in flight as objects in a call."""
    done = subprocess.run(
        ["fio", "--name=read", f"--filename={path}", "--rw=randread", "--bs=4k", "--direct=1",
         "--ioengine=libaio", f"--iodepth={BATCH}", "--norandommap", "--readonly", "--thread",
         f"--size={RAW_MIB}M", "--time_based", f"--runtime={round(seconds * 1000)}ms",
         "--output-format=json"], check=True, text=True, stdout=subprocess.PIPE)
    report = json.loads(done.stdout[done.stdout.index("{"):])
    return float(report["jobs"][0]["read"]["iops"])


def profile(sample: Callable[[str, float, Callable[[float], float]], None], seconds: float) -> None:
    """Reads and writes of a store of 8 times its memory, sampled by the caller."""
    drive, = drives(("large",))
    store = Durable("object", "lsmem", [drive], MEMORY_MIB, capacity=CAPACITY_MIB)
    store.start("--format", "--force")
    player = Contestant("mixed", "-s", str(SIZE), "-l", "800", "-b", str(BATCH), "-z", "-p",
                        store.device)
    sample("Zipf 0.99, 95 % reads of 1 KB, memory 1/8 of the store", seconds,
           lambda length: player.round(length, 1))
    player.close()
    store.close()


def _more_than_memory(rounds: Rounds) -> None:
    large, other, raw = drives(("large", "whole", "raw"))
    tiered = Durable("object", "lsmem", [large], MEMORY_MIB, capacity=CAPACITY_MIB)
    whole = Durable("object", "lsmem1", [other], CAPACITY_MIB)
    for store in (tiered, whole):
        store.start("--format", "--force")
    common = ("-s", str(SIZE), "-l", "800", "-b", str(BATCH))
    players = {"mixed": Contestant("mixed", *common, "-z", "-p", tiered.device),
               "in memory": Contestant("mixed", *common, "-z", "-p", whole.device)}
    seconds = rounds.seconds * TURN
    rates = rounds.run({name: _turn(player, seconds) for name, player in players.items()})
    for player in players.values():
        player.close()
    how = (f"1 KB objects, 80 % of a store of {CAPACITY_MIB} MiB live, batches of {BATCH}; backup: "
           "a file on the host, as fast as its page cache")
    result("tier", "Zipf 0.99, 95 % reads, memory 1/8 of the store", rates["mixed"],
           rates["in memory"], "all in memory", "op/s", f"{how}; lsm_read_many and vector calls",
           HOT_TARGET)
    whole.close()
    tiered.close()


def _cold(rounds: Rounds) -> None:
    """Nearly every read misses: the drive is the limit, or what is between."""
    drive, raw = drives(("large", "raw"))
    subprocess.run(["dd", "if=/dev/urandom", f"of={raw}", "bs=1M", f"count={RAW_MIB}",
                    "oflag=direct"], check=True, stderr=subprocess.DEVNULL)
    store = Durable("object", "lsmem", [drive], MEMORY_MIB, capacity=CAPACITY_MIB)
    store.start("--format", "--force")
    player = Contestant("read-many", "-s", str(SIZE), "-l", "800", "-b", str(BATCH), "-r", "-p",
                        store.device)
    seconds = rounds.seconds * TURN
    rates = rounds.run({"cold": _turn(player, seconds),
                        "raw": lambda: _random_reads(raw, seconds)})
    player.close()
    store.close()
    result("tier", "random reads of 1 KB, memory 1/8 of the store", rates["cold"], rates["raw"],
           "fio on the drive", "op/s",
           f"lsm_read_many of {BATCH}, any object; fio: random reads of 4 KiB, depth {BATCH}, direct",
           COLD_TARGET)


def _not_needed(rounds: Rounds) -> None:
    """What a tier costs when all objects are in memory."""
    objects, blocks = drives(("objects", "blocks"))
    tiered = Durable("object", "lsmem", [objects], FITS_MIB, capacity=2 * FITS_MIB)
    plain = Durable("object", "lsmem1", [blocks], FITS_MIB)
    players = {}
    for store, live in ((tiered, 350), (plain, 700)):
        store.start("--format", "--force")
        players[store.store] = Contestant("mixed", "-s", str(SIZE), "-l", str(live), "-b",
                                          str(BATCH), "-z", "-p", store.device)
    seconds = rounds.seconds * TURN
    rates = rounds.run({name: _turn(player, seconds) for name, player in players.items()})
    for player in players.values():
        player.close()
    for store in (tiered, plain):
        store.close()
    result("tier", "Zipf 0.99, 95 % reads, all fits in memory", rates["lsmem"], rates["lsmem1"],
           "no tier", "op/s", f"1 KB objects, 70 % of {FITS_MIB} MiB live, batches of {BATCH}; a "
           "tiered store whose capacity is twice its memory against a durable store without",
           FITS_TARGET)


def tier(rounds: Rounds) -> None:
    """Objects that are not in memory, and what the tier costs where all are."""
    _more_than_memory(rounds)
    _cold(rounds)
    _not_needed(rounds)
