"""Markdown tables from the records of runs: mean ± half of a 95 % t-interval over seeds.

python benchmarks/summary.py benchmarks/results/pilot-methods.jsonl
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

# 97.5 % quantiles of Student's t for 1 … 9 degrees of freedom.
T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
METRICS = {"entity_f1": ("F1", 3), "ece": ("ECE", 4), "apcr": ("APCR", 1)}


def mean_and_half(values, digits):
    n = len(values)
    half = T[n - 2] * np.std(values, ddof=1) / np.sqrt(n) if n > 1 else float("nan")
    return f"{np.mean(values):.{digits}f} ± {half:.{digits}f}"


def cell(recipe, keys):
    options = ", ".join(f"{k} {v:g}" for k, v in recipe["method_options"].items())
    name = recipe["method"] + (f" ({options})" if options else "")
    return tuple(name if key == "method" else recipe[key] for key in keys)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("records", type=Path)
    parser.add_argument("--by", default="method", help="recipe keys that make a row, by commas")
    args = parser.parse_args()
    keys = args.by.split(",")
    corpora = defaultdict(lambda: defaultdict(list))
    for line in args.records.read_text().splitlines():
        record = json.loads(line)
        corpora[record["recipe"]["data"]][cell(record["recipe"], keys)].append(record["results"])
    titles = [title for title, _ in METRICS.values()]
    for corpus, rows in sorted(corpora.items()):
        print(f"\n**{corpus}**\n")
        shown = [*keys, "seeds", *titles, *(f"{t} with temperature" for t in titles[1:])]
        print("|", " | ".join(shown), "|\n|" + "---|" * len(shown))
        for row, results in sorted(rows.items(), key=str):
            numbers = [str(len(results))]
            for fitted, chosen in (("identity", METRICS), ("temperature", ("ece", "apcr"))):
                numbers += [
                    mean_and_half([r[fitted]["test"][m] for r in results], METRICS[m][1])
                    for m in chosen
                ]
            print("|", " | ".join([*map(str, row), *numbers]), "|")


if __name__ == "__main__":
    main()
