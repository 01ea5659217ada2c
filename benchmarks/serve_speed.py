"""Requests per second of `calibrant serve`, and of transformers.pipeline behind the same server.

    OMP_NUM_THREADS=2 python benchmarks/serve_speed.py RUN [EXPORT] --data clinc150 -o FILE.json

Each client sends one text per request over one connection and waits for the answer; server and
clients share the machine. The pipeline runs in a thread of a Starlette application, one request
at a time, as its documentation shows. The classes of 200 texts must be the same from each server.
"""

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import calibrant
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
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ)
    )
    try:
        asyncio.run(until_ready(port, process))
        yield
    finally:
        process.terminate()
        process.wait(30)


async def until_ready(port, process):
    for _ in range(600):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
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


async def load(port, texts, clients, seconds):
    times, until = [], time.perf_counter() + seconds
    start = time.perf_counter()
    each = [texts[i::clients] * 200 for i in range(clients)]
    await asyncio.gather(*(client(port, part, times, until) for part in each))
    return times, time.perf_counter() - start


def measured(port, texts, clients, seconds):
    asyncio.run(load(port, texts, clients, min(2.0, seconds)))  # Warm.
    times, elapsed = asyncio.run(load(port, texts, clients, seconds))
    p50, p95, p99 = (1000 * np.quantile(times, q) for q in (0.5, 0.95, 0.99))
    return {
        "clients": clients, "requests_per_second": len(times) / elapsed,
        "p50_ms": p50, "p95_ms": p95, "p99_ms": p99, "requests": len(times),
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
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    texts = texts_of(args.data, args.data_dir, 500)
    task = json.loads((args.run / "recipe.json").read_text())["task"]
    kind = {"ner": "token-classification", "text": "text-classification"}[task]
    serve = [sys.executable, "-m", "calibrant", "serve"]
    servers = {
        "transformers.pipeline": [sys.executable, "-c", PIPELINE, kind, str(args.run / "model")],
        "calibrant, torch": [*serve, str(args.run), "--port"],
    }
    if args.export is not None:
        servers["calibrant, export"] = [*serve, str(args.export), "--port"]
    rows, expected = [], None
    for number, (name, command) in enumerate(servers.items()):
        port = 18080 + number
        with served([*command, str(port)], port):
            if task == "text":  # Entities are compared in predict_speed.py, word by word.
                labels = [label_of(answer) for answer in answers(port, texts[:200])]
                expected = labels if expected is None else expected
                assert labels == expected, "the outputs differ"
            for clients in args.clients:
                row = {"server": name, **measured(port, texts, clients, args.seconds)}
                rows.append(row)
                print(show(row, rows), flush=True)
    if args.output is not None:
        content = {"circumstances": circumstances(), "rows": rows}
        args.output.write_text(json.dumps(content, indent=1) + "\n")


def show(row, rows):
    base = next(r for r in rows if r["clients"] == row["clients"])
    ratio = row["requests_per_second"] / base["requests_per_second"]
    return (
        f"{row['server']:24}{row['clients']:4} clients {row['requests_per_second']:8.1f}/s "
        f"({ratio:.2f}×)  p50, p95, p99: {row['p50_ms']:.1f}, {row['p95_ms']:.1f}, "
        f"{row['p99_ms']:.1f} ms"
    )


def circumstances():
    import torch
    import transformers

    git = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "calibrant": calibrant.__version__, "git": git.stdout.strip()[:12] or None,
        "torch": torch.__version__, "transformers": transformers.__version__,
        "python": platform.python_version(), "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
    }  # fmt: skip


if __name__ == "__main__":
    main()
