"""Audits and fits on Ray against one process: equal numbers, throughput per core, memory, growth.

python benchmarks/scale.py --rows 1000000 --cores 2          # a try
python benchmarks/scale.py --rows 100000000 --cores 2 --output benchmarks/results/scale-cpu.json
python benchmarks/scale.py --table benchmarks/results/scale-cpu.json --page docs/clusters.md

Rows are generated shard by shard into a folder, which is removed at the end: 45 bytes each at 10
classes, so 10⁸ rows take about 4.5 GB of disk, and never more than one shard of memory. With
``--shards`` they stay in a folder of yours. With ``--stage`` each measurement is a command of its
own, which adds its numbers to those that OUTPUT has.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from json import dumps, loads
from pathlib import Path

import numpy as np

from machine import circumstances, write_results

SHARD = 1 << 20  # Rows per file, in row groups of an eighth.
CALIBRATORS = ("temperature", "vector", "platt", "isotonic-top-label")
PLANNED = 10**10
STAGES = ("audit", "fits", "growth")
MARKS = ("<!-- scale: begin -->", "<!-- scale: end -->")
CORES_PLANNED = (8, 64, 512)
_QUIET = 0.05  # Of the processors: what a machine uses that does nothing else.


def write_shards(folder, rows, classes, shard=SHARD):
    """Write parquet files of overconfident logits; each has its own seed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, rows, shard)):
        if (folder / f"{number:06}.parquet").exists():
            continue
        count, random = min(shard, rows - start), np.random.default_rng(number)
        logits = random.standard_normal((count, classes), np.float32)
        labels = random.integers(0, classes, count)
        logits[np.arange(count), labels] += np.float32(np.log(classes))
        column = pa.FixedSizeListArray.from_arrays(pa.array(1.5 * logits.reshape(-1)), classes)
        table = pa.table({"logits": column, "label": labels})
        pq.write_table(table, folder / f"{number:06}.parquet", row_group_size=max(1, shard // 8))
    return folder


def alone(folder, repeats):
    """Audit in this process on one core; return seconds, peak megabytes, and the state.

    The quickest of ``repeats`` runs counts: others shared the machine.
    """
    from calibrant import audit
    from calibrant.files import stream

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    audit(stream(min(folder.iterdir())), bootstrap=0)  # Loads the compiled code.
    runs = []
    for _ in range(repeats):
        machine, start, before = busy_seconds(), time.perf_counter(), time.process_time()
        found = audit(stream(folder), bootstrap=0)
        seconds, own = time.perf_counter() - start, time.process_time() - before
        runs.append((seconds, own, busy_seconds() - machine))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**best_of(runs), "megabytes": peak}, found.state.to_json()


def busy_seconds():
    """Return how long all processors of the machine worked, for whom ever (0: not known)."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    user, nice, system, _, _, irq, softirq, stolen = map(int, stat.read_text().split()[1:9])
    return (user + nice + system + irq + softirq + stolen) / os.sysconf("SC_CLK_TCK")


def best_of(runs):
    """Return the least seconds and processor seconds, and what others took of the processors.

    Each run is its seconds, its own processor seconds, and those of the machine meanwhile.
    """
    seconds, own, machine = min(runs)
    others = max(0.0, machine - own) / (seconds * os.cpu_count())
    return {
        "seconds": seconds,
        "cpu_seconds": min(own for _, own, _ in runs),
        "share_of_others": others,
    }


class Watched:
    """Samples the memory of Ray's workers while a block runs, and adds up all processor time."""

    def __enter__(self):
        self.peak, self._end, self._before = 0.0, threading.Event(), _processor_time()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()
        self.cpu_seconds = _processor_time() - self._before

    def _watch(self):
        import psutil

        workers = [p for p in _of_ray() if p.info["cmdline"][0].startswith("ray::")]
        while not self._end.wait(0.2):  # Workers wait for tasks when this begins.
            for worker in workers:
                with suppress(psutil.Error):
                    own = worker.memory_info()  # Without the store of all workers.
                    self.peak = max(self.peak, (own.rss - own.shared) / 2**20)


def _of_ray():
    """Yield this process and those of its cluster: workers, and what moves their results."""
    import psutil

    mine = psutil.Process()
    below = {mine.pid, *(child.pid for child in mine.children(recursive=True))}
    for process in psutil.process_iter(["cmdline", "memory_info", "cpu_times"]):
        if process.pid in below and process.info["cmdline"] and process.info["cpu_times"]:
            yield process


def _processor_time():
    return sum(sum(process.info["cpu_times"][:2]) for process in _of_ray())


def audited_on_ray(folder, rows, cores, repeats):
    """Audit on a cluster: at first, when workers start, and then, without their start."""
    from calibrant.distributed import audit
    from calibrant.distributed.ray_cluster import connected
    from calibrant.distributed.ray_engine import RayEngine

    files, start = sorted(map(str, folder.iterdir())), time.perf_counter()
    with connected("local", cores=cores):
        engine = RayEngine()
        audit(files[:cores], engine=engine, bootstrap=0)  # Each worker loads its code.
        started = time.perf_counter() - start
        with Watched() as of_tenth:
            audit(files[: -(-len(files) // 10)], engine=engine, bootstrap=0)
        runs = []
        for _ in range(repeats):
            with Watched() as of_all:
                machine, start = busy_seconds(), time.perf_counter()
                found = audit(str(folder), engine=engine, bootstrap=0)
                seconds, machine = time.perf_counter() - start, busy_seconds() - machine
            runs.append((seconds, of_all.cpu_seconds, machine))
    best = best_of(runs)
    return {
        **best,
        "start_up_seconds": started,
        "cores": cores,
        "worker_megabytes": of_all.peak,
        "worker_megabytes_of_a_tenth": of_tenth.peak,
        "rows_per_core_second": rows / best["seconds"] / cores,
        "rows_per_cpu_second": rows / best["cpu_seconds"],
    }, found.state


def fitted_on_ray(folder, rows, cores):
    """Return seconds and passes of fits, and processor time of an audit of the same rows."""
    from calibrant.distributed import audit, fit
    from calibrant.distributed.ray_cluster import connected
    from calibrant.distributed.ray_engine import RayEngine

    files, found = sorted(map(str, folder.iterdir()))[: max(1, rows // SHARD)], {}
    with connected("local", cores=cores):
        engine = RayEngine()
        fit(files[:cores], "temperature", engine=engine)  # Each worker loads its code.
        for name in CALIBRATORS:
            start = time.perf_counter()
            with Watched() as watched:
                passes = fit(files, name, engine=engine).fitted_on_["passes"]
            seconds, busy = time.perf_counter() - start, watched.cpu_seconds
            found[name] = {"seconds": seconds, "cpu_seconds": busy, "passes": passes}
        with Watched() as watched:
            counted = audit(files, engine=engine, bootstrap=0).provenance["n"]
    return {"rows": counted, "audit_cpu_seconds": watched.cpu_seconds, "of": found}


def agreement(one, other):
    """Return how many counts differ, and the largest relative difference of sums."""
    counts, sums = 0, 0.0
    for name in one.SUMS:
        mine, theirs = (np.asarray(getattr(state, name)) for state in (one, other))
        if mine.dtype.kind == "i":
            counts += int((mine != theirs).sum())
        else:
            gap = np.abs(mine - theirs) / np.maximum(np.abs(mine), 1e-300)
            sums = max(sums, float(gap.max(initial=0)))
    return {"different_counts": counts, "largest_relative_difference": sums}


def growth(folder, rows):
    """Return seconds here, part by part, as rows, classes and parts grow, and their bytes."""
    from calibrant.distributed.auditing import audit
    from calibrant.distributed.engine import LocalEngine, Parts
    from calibrant.distributed.parquet_parts import plan_parts

    class Counted(LocalEngine):
        def __init__(self):
            self.sizes = []

        def map(self, task, parts):
            for result in super().map(task, parts):
                self.sizes.append(len(result))
                yield result

    found = []
    for n, classes, scores in (
        *((n, 10, 1 << 23) for n in (rows // 100, rows // 10, rows)),
        *((max(1000, rows // classes), classes, 1 << 23) for classes in (2, 100, 1000)),
        *((rows, 10, scores) for scores in (1 << 20, 1 << 25)),
    ):
        place = write_shards(folder / f"{n}-{classes}", n, classes) if n else None
        plan = plan_parts(place, scores=scores)
        engine, start = Counted(), time.process_time()
        audit(Parts(engine, plan.parts, plan.schemas[0], plan.rows), bootstrap=0)
        seconds = time.process_time() - start
        row = {"rows": n, "classes": classes, "parts": len(plan.parts), "cpu_seconds": seconds}
        found.append({**row, "bytes_per_part": int(np.mean(engine.sizes))})
        print(row, flush=True)
        for path in place.iterdir():
            path.unlink()
    return found


def measure_audit(folder, args):
    """Audit all rows alone and on Ray, and compare the states."""
    from calibrant.metrics import CalibrationState

    child = [sys.executable, __file__, "--alone", str(folder), "--repeats", str(args.repeats)]
    done = subprocess.run(child, check=True, capture_output=True, text=True)
    first, _, state = done.stdout.partition("\n")
    one = loads(first)
    one["rows_per_core_second"] = args.rows / one["seconds"]
    one["rows_per_cpu_second"] = args.rows / one["cpu_seconds"]
    print(one, flush=True)
    cluster, found = audited_on_ray(folder, args.rows, args.cores, args.repeats)
    print(cluster, flush=True)
    speeds = ("rows_per_core_second", "rows_per_cpu_second")
    share, of_time = (cluster[speed] / one[speed] for speed in speeds)
    return {
        "rows": args.rows,
        "repeats": args.repeats,
        "classes": args.classes,
        "alone": one,
        "ray": cluster,
        "share_of_one_process": share,
        "share_of_one_process_in_cpu_time": of_time,
        "agreement": agreement(CalibrationState.from_json(state), found),
    }


def measure(args):
    """Return the numbers of the stages, with those that the output has of others."""
    given = args.output is not None and args.output.exists() and args.stage
    results = loads(args.output.read_text()) if given else {}
    with tempfile.TemporaryDirectory(dir=args.folder) as temporary:
        folder = args.shards or Path(temporary) / "shards"
        for stage in (args.stage,) if args.stage else STAGES:
            if stage != "growth":
                write_shards(folder, args.rows, args.classes)
            if stage == "audit":
                results |= measure_audit(folder, args)
            elif stage == "fits":
                results["fits"] = fitted_on_ray(folder, args.fit_rows or args.rows, args.cores)
            else:
                results["growth"] = growth(Path(temporary), args.growth)
            about = circumstances(["calibrant", "numpy", "pyarrow", "ray", "numba"])
            results.setdefault("circumstances", {})[stage] = about
    return results


def tables(results):
    """Return the tables of docs/clusters.md as Markdown."""
    one, ray, same = results["alone"], results["ray"], results["agreement"]
    about, fits = results["circumstances"]["audit"], results["fits"]
    lines = [
        f"Measured with {results['rows']:,} rows of {results['classes']} classes on "
        f"{ray['cores']} cores ({about['processor']}), commit {about['commit'][:10]}, the best "
        f"of {results['repeats']} runs. The first "
        f"audit of a new cluster takes {ray['start_up_seconds']:.0f} seconds more: Ray starts its "
        "processes, which load their code.",
        *_shared(one, ray),
        "",
        "| | one process, one core | Ray |",
        "|---|---|---|",
        f"| audit, seconds | {one['seconds']:.1f} | {ray['seconds']:.1f} |",
        f"| rows per second and core | {one['rows_per_core_second']:,.0f} | "
        f"{ray['rows_per_core_second']:,.0f} ({100 * results['share_of_one_process']:.0f} %) |",
        "| rows per second of processor time, of all processes | "
        f"{one['rows_per_cpu_second']:,.0f} | {ray['rows_per_cpu_second']:,.0f} "
        f"({100 * results['share_of_one_process_in_cpu_time']:.0f} %) |",
        f"| memory, MB | {one['megabytes']:.0f} | {ray['worker_megabytes']:.0f} per worker; "
        f"{ray['worker_megabytes_of_a_tenth']:.0f} for a tenth of the rows |",
        f"| counts that differ | | {same['different_counts']} |",
        f"| largest relative difference of a sum | | {same['largest_relative_difference']:.1e} |",
        "",
        f"| fit of {fits['rows']:,} rows | seconds on Ray | of processor time | passes |",
        "|---|---|---|---|",
        *(
            f"| {n} | {f['seconds']:.1f} | {f['cpu_seconds']:.1f} | {f['passes']} |"
            for n, f in fits["of"].items()
        ),
        "",
        "| rows | classes | parts | processor seconds, one process | kB per part's result |",
        "|---|---|---|---|---|",
        *(
            f"| {g['rows']:,} | {g['classes']:,} | {g['parts']:,} | {g['cpu_seconds']:.2f} | "
            f"{g['bytes_per_part'] / 1000:,.0f} |"
            for g in results["growth"]
        ),
        "",
        *planned(results),
    ]
    return "\n".join(lines)


def _shared(one, ray):
    """Say so if other programs had a part of the processors: then seconds mean little."""
    share = max(one["share_of_others"], ray["share_of_others"])
    yield f"Other programs used {100 * share:.0f} % of the processors meanwhile."
    if share > _QUIET:
        yield (
            "So seconds, and rows per second and core, tell little; processor time does not depend "
            "on them."
        )


def planned(results):
    """Return the table of a plan for 10¹⁰ rows, on cores that do nothing else.

    Time comes from the rows per second of processor time.
    """
    speed, fits = results["ray"]["rows_per_cpu_second"], results["fits"]
    audit = fits["audit_cpu_seconds"]
    ratio = {name: fit["cpu_seconds"] / audit for name, fit in fits["of"].items()}
    yield f"| {PLANNED:,} rows | " + " | ".join(f"{c} cores" for c in CORES_PLANNED) + " |"
    yield "|---|" + "---|" * len(CORES_PLANNED)
    for what, factor in {"audit": 1.0, **{f"fit {n}": r for n, r in ratio.items()}}.items():
        hours = [factor * PLANNED / speed / c / 3600 for c in CORES_PLANNED]
        yield f"| {what} | " + " | ".join(map(_duration, hours)) + " |"


def _duration(hours):
    if hours >= 1:
        return f"{hours:.1f} h"
    return f"{60 * hours:.0f} min" if hours >= 1 / 30 else f"{3600 * hours:.0f} s"


def write_page(page, text):
    """Put the tables between the marks of a page."""
    before, _, rest = page.read_text("utf-8").partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    page.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{after}", "utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--growth", type=int, default=1_000_000, help="rows of the growth table")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--folder", help="where files are written that are removed (the system's)")
    parser.add_argument("--shards", type=Path, help="a folder for the shards, which stay")
    parser.add_argument("--fit-rows", type=int, help="rows that the fits take, of the first (all)")
    parser.add_argument("--repeats", type=int, default=3, help="audits, of which the best counts")
    parser.add_argument("--stage", choices=STAGES, help="measure this alone")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--alone", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--table", type=Path, help="print the tables of these results")
    parser.add_argument("--page", type=Path, help="with --table: write them into this page")
    args = parser.parse_args()
    if args.alone is not None:
        about, state = alone(args.alone, args.repeats)
        print(dumps(about), state, sep="\n")
    elif args.table is not None:
        text = tables(loads(args.table.read_text()))
        print(text) if args.page is None else write_page(args.page, text)
    else:
        results = measure(args)
        write_results(results, args.output)
        print(tables(results) if set(STAGES) <= {*results["circumstances"]} else dumps(results))


if __name__ == "__main__":
    main()
