"""Requests per second of `calibrant serve`, and of transformers.pipeline behind the same server.

    OMP_NUM_THREADS=2 python benchmarks/serve_speed.py RUN [EXPORT] --data clinc150 -o FILE.json

Each client sends one text per request over one connection and waits for the answer; server and
clients share the machine. The pipeline runs in a thread of a Starlette application, one request
at a time, as its documentation shows. The classes of 200 texts must be the same from each server.
The servers take turns in each round. Ratios are those of one round; the rows have their medians.
``processor_ms`` is the processor time of the server per request (Linux): other work on the machine
changes it less than the clock.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from machine import circumstances
from predict_speed import texts_of

PIPELINE = """
import asyncio, sys
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
import uvicorn
from transformers import pipeline
kind, folder, port = sys.argv[1:]
model = pipeline(kind, folder, device="cpu")
lock = asyncio.Lock()
async def predict(request):
    text = (await request.json())["text"]
    async with lock:
        found = await asyncio.to_thread(model, text)
    return JSONResponse({"found": [{k: str(v) for k, v in one.items()} for one in found]})
async def health(request):
    return JSONResponse({})
routes = [Route("/predict", predict, methods=["POST"]), Route("/healthz", health)]
uvicorn.run(Starlette(routes=routes), port=int(port), log_level="error")
"""


@contextmanager
def served(command, port):
    """Start a server; yield the seconds until it answers."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ)
    )
    try:
        asyncio.run(until_ready(port, process))
        yield time.perf_counter() - start, process.pid
    finally:
        process.terminate()
        process.wait(30)


async def until_ready(port, process):
    for _ in range(600):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await post(reader, writer, port, "a first text")  # Some listen before they are ready.
            writer.close()
            return
        except OSError:
            if process.poll() is not None:
                raise RuntimeError("the server ended") from None
            await asyncio.sleep(0.2)
    raise TimeoutError


async def client(port, texts, times, until):
    """Send texts one after the other over one connection, until the time is over."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for text in texts:
        if time.perf_counter() > until:
            break
        start = time.perf_counter()
        await post(reader, writer, port, text)
        times.append(time.perf_counter() - start)
    writer.close()


async def post(reader, writer, port, text):
    body = json.dumps({"text": text}).encode()
    head = f"POST /predict HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    status = int(answer.split(b" ", 2)[1])
    fields = answer.decode("latin-1").lower().split("\r\n")
    length = next(int(f.split(":")[1]) for f in fields if f.startswith("content-length:"))
    content = await reader.readexactly(length)
    if status != 200:
        raise RuntimeError(f"{status}: {content[:200]}")
    return json.loads(content)


def processor_seconds(pid):
    """Return the processor time that a process has taken, all threads together."""
    path = Path(f"/proc/{pid}/stat")
    if not path.exists():
        return float("nan")
    values = path.read_text().rpartition(")")[2].split()
    return (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")


async def load(port, texts, clients, seconds):
    times, until = [], time.perf_counter() + seconds
    start = time.perf_counter()
    each = [texts[i::clients] * 200 for i in range(clients)]
    await asyncio.gather(*(client(port, part, times, until) for part in each))
    return times, time.perf_counter() - start


def one_round(ports, pids, texts, clients, seconds):
    """Return requests per second, times and processor time of each server, one after the other."""
    found = {}
    for name, port in ports.items():
        before = processor_seconds(pids[name])
        times, elapsed = asyncio.run(load(port, texts, clients, seconds))
        found[name] = len(times) / elapsed, times, processor_seconds(pids[name]) - before
    return found


def measured(ports, pids, texts, clients, seconds, rounds):
    """Return a row for each server; ratios are those of one round, and the row has the median."""
    one_round(ports, pids, texts, clients, min(1.0, seconds))  # Warm.
    made = [one_round(ports, pids, texts, clients, seconds) for _ in range(rounds)]
    base = next(iter(ports))
    for name in ports:
        times = [1000 * t for found in made for t in found[name][1]]
        p50, p95, p99 = (float(np.quantile(times, q)) for q in (0.5, 0.95, 0.99))
        ratios = [found[name][0] / found[base][0] for found in made]
        yield {
            "server": name, "clients": clients,
            "requests_per_second": statistics.median(found[name][0] for found in made),
            "times_the_pipeline": statistics.median(ratios),
            "least_and_most_times": [min(ratios), max(ratios)],
            "p50_ms": p50, "p95_ms": p95, "p99_ms": p99, "requests": len(times),
            "processor_ms": 1000 * sum(found[name][2] for found in made) / len(times),
        }  # fmt: skip


def answers(port, texts):
    async def ask():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        found = [await post(reader, writer, port, text) for text in texts]
        writer.close()
        return found

    return asyncio.run(ask())


def label_of(answer):
    """Return the class of a text, from the service or the pipeline."""
    return answer["found"][0]["label"] if "found" in answer else answer["predictions"][0]["label"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("export", type=Path, nargs="?")
    parser.add_argument("--data", default="clinc150", help="corpus of the texts")
    parser.add_argument("--data-dir", help="folder of the corpora")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=3.0, help="of one server in one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    texts = texts_of(args.data, args.data_dir, 500)
    task = json.loads((args.run / "recipe.json").read_text())["task"]
    kind = {"ner": "token-classification", "text": "text-classification"}[task]
    serve = [sys.executable, "-m", "calibrant", "serve"]
    servers = {
        "transformers.pipeline": [sys.executable, "-c", PIPELINE, kind, str(args.run / "model")],
        "calibrant, RUN": [*serve, str(args.run), "--runtime", "onnxruntime", "--port"],
        "calibrant, RUN by torch": [*serve, str(args.run), "--runtime", "torch", "--port"],
    }
    if args.export is not None:
        servers["calibrant, EXPORT"] = [*serve, str(args.export), "--port"]
    ports = {name: 18080 + number for number, name in enumerate(servers)}
    rows = []
    with ExitStack() as stack:
        ready, pids = {}, {}
        for name, command in servers.items():
            made = stack.enter_context(served([*command, str(ports[name])], ports[name]))
            ready[name], pids[name] = made
        if task == "text":  # Entities are compared in predict_speed.py, word by word.
            labels = [[label_of(each) for each in answers(p, texts[:200])] for p in ports.values()]
            assert all(found == labels[0] for found in labels), "the outputs differ"
        for clients in args.clients:
            for row in measured(ports, pids, texts, clients, args.seconds, args.rounds):
                rows.append(row)
                print(show(row), flush=True)
    if args.output is not None:
        known = circumstances(["calibrant", "torch", "transformers", "onnxruntime", "uvicorn"])
        known["threads"] = os.environ.get("OMP_NUM_THREADS")
        content = {"circumstances": known, "start_seconds": ready, "rows": rows}
        args.output.write_text(json.dumps(content, indent=1) + "\n")


def show(row):
    return (
        f"{row['server']:24}{row['clients']:4} clients {row['requests_per_second']:8.1f}/s "
        f"({row['times_the_pipeline']:.2f}×)  p50, p95, p99: {row['p50_ms']:.1f}, "
        f"{row['p95_ms']:.1f}, {row['p99_ms']:.1f} ms  "
        f"processor {row['processor_ms']:.1f} ms"
    )


if __name__ == "__main__":
    main()
