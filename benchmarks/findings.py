"""The tables of docs/findings and README.md that `calibrant report` does not print as such.

    python benchmarks/findings.py

All methods at width 128; the paper's methods less the baseline, each seed's mean over the widths,
± half of a 95 % t-interval over seeds; quirks, λ and noises less the same method without; the depth
of the head; the default recipe against the best of the paper's rows; the shifted test sets of
CoNLL-2003; whole entities; CIFAR-10; Tiny-ImageNet; networks on corrupted images; masks; CamVid;
texts. Files of records that are not there yet are left out.
"""

import json
import math
from collections import Counter, defaultdict
from pathlib import Path
from statistics import mean, median, stdev

from scipy import stats

from calibrant.experiments.recipe import Recipe
from calibrant.metrics.table import with_new_names
from reproduction.printed import image_value, paper_value

RESULTS = Path(__file__).parent / "results"
CORPORA = ("conll2003", "ncbi-disease", "wikiann-en", "gum", "wnut17")
PAPER = (
    "cross_entropy", "avuc", "error_regularization", "head_noise",
    "head_noise_error_regularization",
)  # fmt: skip


# Metric and calibrator of the numbers that most tables have.
COLUMNS = (("entity_f1", "identity"), ("ece", "identity"), ("ece", "temperature"))


def records(*names):
    return [json.loads(x) for n in names for x in (RESULTS / f"{n}.jsonl").read_text().splitlines()]


def value(record, metric, map_="identity"):
    return with_new_names(record["results"][map_]["test"])[metric]


def over_seeds(values):
    """Mean ± half of an interval, of the mean of each seed."""
    means = [mean(v) for v in values.values()]
    if len(means) < 2:
        return f"{means[0]:.2f} (1 seed)"
    return f"{mean(means):+.2f} ± {half(means):.2f} ({len(means)} seeds)"


def name(recipe):
    """The method with its options."""
    options = ", ".join(f"{k} {v}" for k, v in sorted(recipe["method_options"].items()))
    return recipe["method"] + (f" ({options})" if options else "")


def methods_at_width_128():
    found = defaultdict(list)
    for record in records("table1", "others"):
        recipe = record["recipe"]
        if recipe["head_width"] == 128:
            found[name(recipe), recipe["data"]].append(record)
    print("Width 128: F1, ECE, APCR; with temperature ECE, APCR; with the recipe's choice ECE")
    for (method, corpus), runs in sorted(found.items()):
        numbers = [mean(value(r, m) for r in runs) for m in ("entity_f1", "ece", "apcr")]
        numbers += [mean(value(r, m, "temperature") for r in runs) for m in ("ece", "apcr")]
        chosen = [value(r, "ece", "auto") for r in runs if "auto" in r["results"]]
        shown = "{:.3f} {:.4f} {:.1f}; {:.4f} {:.1f}; ".format(*numbers)
        shown += f"{mean(chosen):.4f} ({len(chosen)})" if chosen else "–"
        print(f"{method:60}{corpus:14}{len(runs)} seeds  {shown}")


def cells():
    """(corpus, width, seed) → method → record."""
    found = defaultdict(dict)
    for record in records("table1"):
        recipe = record["recipe"]
        found[recipe["data"], recipe["head_width"], recipe["seed"]][recipe["method"]] = record
    return {key: runs for key, runs in found.items() if set(runs) >= set(PAPER)}


def differences(whole):
    print("\nLess the baseline, in points")
    for corpus in CORPORA:
        for method in PAPER[1:]:
            cells = []
            for metric, map_ in COLUMNS:
                by_seed = defaultdict(list)
                for (data, _, seed), runs in whole.items():
                    if data == corpus:
                        ours, base = (value(runs[m], metric, map_) for m in (method, PAPER[0]))
                        by_seed[seed].append(100 * (ours - base))
                cells.append(over_seeds(by_seed))
            print(
                f"{corpus:14}{method:33}F1 {cells[0]}  ECE {cells[1]}  with temperature {cells[2]}"
            )


def families(whole):
    """All differences of Table I with one correction for the 20 of each metric."""
    print("\nLess the baseline, over seeds; p after Holm over the 20 comparisons of each metric")
    columns = (
        ("entity_f1", "identity"), ("token_f1", "identity"), ("ece", "identity"),
        ("ece", "temperature"), ("apcr", "identity"),
    )  # fmt: skip
    for metric, map_ in columns:
        found = {}
        for corpus in CORPORA:
            for method in PAPER[1:]:
                found[corpus, method] = [
                    mean(v) for v in _less_baseline(whole, corpus, method, metric, map_).values()
                ]
        print_family(f"{metric} {map_}", found)


def print_family(title, found):
    """One line per comparison: the mean over seeds, its interval, and p after Holm."""
    corrected = holm({key: stats.ttest_1samp(values, 0).pvalue for key, values in found.items()})
    higher = sum(mean(values) > 0 for values in found.values())
    print(f"{title}: above the baseline in {higher} of {len(found)}")
    for (corpus, method), values in found.items():
        shown = f"{mean(values):+.2f} ± {half(values):.2f}"
        p = corrected[corpus, method]
        print(f"  {corpus:14}{method:33}{shown:18} p {p:.3f}" + (" *" if p < 0.05 else ""))


def meta_regularised(whole):
    """SECE, DECE and γ-Net at today's defaults less cross-entropy, paired by seed, width 128."""
    print("\nCE-DECE, CE-SECE (weight .1), FLγ-SECE less cross-entropy, in points; Holm over 15")
    shown = ("dece (weight 0.1)", "sece (weight 0.1)", "gamma_net_sece")
    for metric, map_ in COLUMNS:
        found = defaultdict(list)
        for record in records("others"):
            recipe = record["recipe"]
            if recipe["head_width"] == 128 and name(recipe) in shown:
                base = whole[recipe["data"], 128, recipe["seed"]][PAPER[0]]
                ours, theirs = (value(r, metric, map_) for r in (record, base))
                found[recipe["data"], name(recipe)].append(100 * (ours - theirs))
        print_family(f"{metric} {map_}", found)


def _less_baseline(whole, corpus, method, metric, map_):
    """Seed → differences over widths: points, or per cent of the baseline's APCR."""
    by_seed = defaultdict(list)
    for (data, _, seed), runs in whole.items():
        if data == corpus:
            ours, base = (value(runs[m], metric, map_) for m in (method, PAPER[0]))
            by_seed[seed].append(100 * (ours / base - 1 if metric == "apcr" else ours - base))
    return by_seed


def holm(raw):
    """Holm's step-down p values."""
    corrected, most = {}, 0.0
    for rank, key in enumerate(sorted(raw, key=raw.get)):
        most = max(most, min(1.0, (len(raw) - rank) * raw[key]))
        corrected[key] = most
    return corrected


def cells_won(whole):
    """Count the cells of corpus and width in which ∇Acc beats the baseline, and each row all."""
    found = defaultdict(lambda: defaultdict(list))
    for (corpus, width, _), runs in whole.items():
        for method in PAPER:
            found[corpus, width][method].append(value(runs[method], "apcr"))
    won = sum(mean(c["head_noise"]) > mean(c[PAPER[0]]) for c in found.values())
    print(f"\n∇Acc has the higher mean APCR in {won} of {len(found)} cells of corpus and width")
    best = [max(PAPER, key=lambda method: mean(c[method])) for c in found.values()]
    print("The best mean APCR of the five, in cells:", dict(Counter(best)))


def variation(recipe):
    """What a run in the paper's setting has otherwise than the five methods at width 128."""
    return ", ".join(
        text
        for differs, text in (
            (recipe["warm_up"] != 0, f"warm-up {recipe['warm_up']}"),
            (recipe["head_width"] != 128, f"width {recipe['head_width']}"),
            (recipe["head_activation"] == "none", "without activation"),
            (recipe["dtype"] != "bfloat16", recipe["dtype"]),
            ("mpnet" not in recipe["model"], recipe["model"]),
        )
        if differs
    )


def paper_setting():
    """The paper's own setting: every run, and how many of them collapsed."""
    print("\nThe paper's setting: entity F1, token F1, ECE, ECE with the chosen map, by seed")
    runs = records("paper-setting", "paper-setting-weights", "paper-setting-more")
    found, f1 = defaultdict(list), defaultdict(list)
    for record in runs:
        recipe = record["recipe"]
        found[recipe["data"], variation(recipe), name(recipe)].append(record)
        f1[recipe["data"]].append(value(record, "entity_f1"))
    half_of_median = {corpus: median(values) / 2 for corpus, values in f1.items()}
    collapsed = [value(r, "entity_f1") < half_of_median[r["recipe"]["data"]] for r in runs]
    of_run = dict(zip(map(id, runs), collapsed, strict=True))
    for (corpus, varied, method), group in sorted(found.items()):
        group.sort(key=lambda r: r["recipe"]["seed"])
        columns = (("entity_f1", "identity"), ("token_f1", "identity"), ("ece", "identity"))
        shown = [
            " ".join(f"{value(r, metric, map_):.3f}" for r in group)
            for metric, map_ in (*columns, ("ece", "auto"))
        ]
        seeds = ",".join(str(r["recipe"]["seed"]) for r in group)
        lost = sum(of_run[id(r)] for r in group)
        label = f"{method}{', ' * bool(varied)}{varied}"
        print(f"{corpus:16}{label:64}seeds {seeds}: {' | '.join(shown)}  collapsed {lost}")
    collapses(runs, collapsed)
    less_baseline_of_learners([r for r in runs if not of_run[id(r)]])
    loss_curves([r for r in runs if r["recipe"]["data"] == "wnut17"])


def collapses(runs, collapsed):
    """Collapsed runs by corpus and variation; on WNUT17 by method, with Fisher's exact tests."""
    counts = defaultdict(lambda: [0, 0])
    by_variation = defaultdict(lambda: [0, 0])
    for record, lost in zip(runs, collapsed, strict=True):
        recipe = record["recipe"]
        options = "other weight or quirk" if recipe["method_options"] else ""
        key = recipe["data"], ", ".join(filter(None, (variation(recipe), options)))
        by_variation[key][0 if lost else 1] += 1
        if recipe["data"] == "wnut17" and variation(recipe) in ("", "warm-up 0.06"):
            counts[name(recipe)][0 if lost else 1] += 1
    print("\nRuns that collapsed and that did not:")
    for (corpus, varied), pair in sorted(by_variation.items()):
        print(f"{corpus:16}{varied or 'as in the paper':52}{pair[0]} of {sum(pair)}")
    print("\nWNUT17, with and without warm-up, collapsed and not:", dict(counts))
    small = [sum(counts[f"avuc (weight {w})"][i] for w in (0.1, 0.25)) for i in (0, 1)]
    large = [counts["avuc"][i] + counts["avuc (weight 3.0)"][i] for i in (0, 1)]
    for label, table in (
        ("cross-entropy against ∇Acc", [counts["cross_entropy"], counts["head_noise"]]),
        ("AvUC at 1 and 3 against .1 and .25", [large, small]),
    ):
        print(f"Fisher's exact test, {label}: p = {stats.fisher_exact(table)[1]:.2f}")


def less_baseline_of_learners(learners):
    """The four methods less cross-entropy of the same seed, from three pairs that learned on."""
    found = {}
    for record in learners:
        recipe = record["recipe"]
        if not variation(recipe) and not recipe["method_options"]:
            found[recipe["data"], recipe["method"], recipe["seed"]] = record
    print("\nThe paper's setting, runs that learned, less cross-entropy of the same seed")
    columns = ("entity_f1", "token_f1", "ece", "apcr")
    for metric, map_ in (*((m, "identity") for m in columns), ("ece", "auto"), ("apcr", "auto")):
        pairs = defaultdict(list)
        for (corpus, method, seed), record in found.items():
            base = found.get((corpus, PAPER[0], seed))
            if base and method != PAPER[0]:
                ours, theirs = (value(r, metric, map_) for r in (record, base))
                less = ours / theirs - 1 if metric == "apcr" else ours - theirs
                pairs[corpus, method].append(100 * less)
        print_family(f"{metric} {map_}", {k: v for k, v in pairs.items() if len(v) > 2})


def loss_curves(runs):
    """The course of the loss of the runs on WNUT17 that have it, in tenths of the training."""
    print("\nWNUT17, mean loss in each tenth of the training, and the F1 at the end")
    for record in runs:
        if curve := record["training"].get("loss_curve"):
            losses = curve["losses"]
            tenths = [mean(losses[i : i + 5]) for i in range(0, len(losses) - 4, 5)]
            recipe = record["recipe"]
            label = f"{name(recipe)}, seed {recipe['seed']}, warm-up {recipe['warm_up']}"
            shown = " ".join(f"{tenth:.3f}" for tenth in tenths)
            print(f"{label:64}{shown}  F1 {value(record, 'entity_f1'):.3f}")


def variants(whole):
    """Each of ablations.jsonl less its control at width 128, paired by seed.

    The control is the method as it is; of what counts −100 among hard errors, hard errors alone.
    """
    print("\nQuirks, λ, noises: F1 and ECE in points, and less the same method without")
    found, hard = defaultdict(list), {}
    for record in records("ablations"):
        recipe = record["recipe"]
        if recipe["method_options"] == {"error": "wrong"}:
            hard[recipe["data"], recipe["seed"]] = record
        plain = " without activation" if recipe["head_activation"] == "none" else ""
        found[recipe["data"], recipe["method"], name(recipe) + plain].append(record)
    tested = defaultdict(dict)
    for (corpus, method, label), runs in found.items():
        shown = []
        for metric, map_ in COLUMNS:
            less = {}
            for record in runs:
                seed, options = record["recipe"]["seed"], record["recipe"]["method_options"]
                plain = whole[corpus, 128, seed][method]
                if options == {"count_ignored": True, "error": "wrong"}:
                    plain = hard[corpus, seed]
                pair = (value(r, metric, map_) for r in (record, plain))
                ours, theirs = (100 * x for x in pair)
                less[seed] = [ours - theirs]
            tested[family(label), metric, map_][corpus, label] = [x for [x] in less.values()]
            shown.append(
                f"{100 * mean(value(r, metric, map_) for r in runs):.2f} {over_seeds(less)}"
            )
        print(f"{corpus:14}{label:75}F1 {shown[0]}  ECE {shown[1]}  with temperature {shown[2]}")
    for (kind, metric, map_), differences in tested.items():
        print_family(f"\n{kind}: {metric} {map_}", differences)


def family(label):
    """The comparisons that a variation is corrected with: quirks, noises or values of λ."""
    if "count_ignored" in label or "without activation" in label:
        return "quirks"
    if "noise {" in label:
        return "noises"
    return "hard errors" if "error wrong" in label else "λ"


def depths():
    print("\nncbi-disease, width 128, by depth: F1, ECE, ECE with temperature in points (seeds)")
    found = defaultdict(list)
    for record in records("table1", "depth"):
        recipe = record["recipe"]
        if (recipe["data"], recipe["head_width"]) == ("ncbi-disease", 128) and recipe["seed"] < 3:
            found[recipe["method"], recipe["head_depth"]].append(record)
    for (method, depth), runs in sorted(found.items()):
        shown = [
            f"{100 * mean(value(r, metric, map_) for r in runs):.2f}" for metric, map_ in COLUMNS
        ]
        print(f"{method:33}{depth}  " + "  ".join(shown) + f"  ({len(runs)})")


def training_time():
    """Shares of stacks, summed; jobs side by side, and other programs on the chip, count twice."""
    seconds = [record["training"]["seconds"] for record in records("table1")]
    print(f"\nTable I: {len(seconds)} runs, {sum(seconds):,.0f} s of training as their records say")


def default_recipe(whole):
    print("\nCross-entropy with the map that validation chooses")
    for corpus in CORPORA:
        here = {key: runs for key, runs in whole.items() if key[0] == corpus}
        apcr = {m: mean(value(runs[m], "apcr") for runs in here.values()) for m in PAPER}
        best = max(apcr, key=apcr.get)
        ratios, chosen = defaultdict(list), []
        for (_, _, seed), runs in here.items():
            if "auto" in runs[PAPER[0]]["results"]:
                ours = value(runs[PAPER[0]], "apcr", "auto")
                ratios[seed].append(ours / value(runs[best], "apcr"))
                chosen.append(runs[PAPER[0]])
        if not chosen:
            print(f"{corpus:14}not yet")
            continue
        maps = dict(Counter(record["training"]["calibrator"] for record in chosen))
        least = min(r for several in ratios.values() for r in several)
        ece, plain = (100 * mean(value(r, "ece", m) for r in chosen) for m in ("auto", "identity"))
        printed = mean(value(r, "apcr", "auto") for r in chosen) / best_printed(corpus)
        print(
            f"{corpus:14}{len(chosen)} runs, {over_seeds(ratios)} times {best}, least {least:.2f}; "
            f"{printed:.1f} times the best printed; ECE {ece:.2f} ({plain:.2f}); {maps}"
        )
    for record in records("maps-cpu"):
        ratio = value(record, "apcr", "isotonic-top-label") / value(record, "apcr")
        print(f"{record['recipe']['data']:14}one run on a CPU: {ratio:.1f} times its own, isotonic")


def best_printed(corpus):
    """The highest APCR in the paper's Table I, of each method's mean over the widths."""
    widths = (64, 128, 200, 256)
    return max(mean(paper_value(corpus, m, w, "apcr") for w in widths) for m in PAPER)


def out_of_domain():
    print("\nTrained on conll2003, width 128: F1; ECE as trained, with temperature, chosen; AUROC")
    found = defaultdict(list)
    for record in records("table1", "others"):
        recipe = record["recipe"]
        if recipe["data"] == "conll2003" and recipe["head_width"] == 128:
            found[name(recipe)].append(record["results"])
    for method, runs in sorted(found.items()):
        for part in ("test", *runs[0]["identity"].get("shift", ())):
            shown = [_mean(runs, "identity", part, m) for m in ("entity_f1", "ece")]
            shown += [_mean(runs, map_, part, "ece") for map_ in ("temperature", "auto")]
            shown.append(_mean(runs, "identity", part, "auroc"))
            print(f"{method:60}{part:24}" + "  ".join(f"{x:.3f}" for x in shown))


def _mean(runs, map_, part, metric):
    found = [run[map_] for run in runs if map_ in run]
    parts = [x["test"] if part == "test" else x["shift"][part] for x in found]
    return mean(p[metric] for p in parts) if parts else math.nan


def half(values):
    """Half of a 95 % t-interval."""
    return stats.t.ppf(0.975, len(values) - 1) * stdev(values) / math.sqrt(len(values))


def percent(values, digits=1):
    """Mean ± half of an interval over seeds, in per cent."""
    shown = f"{100 * mean(values):.{digits}f}"
    return f"{shown} ± {100 * half(values):.{digits}f}" if len(values) > 1 else f"{shown} (1)"


IMAGE_METRICS = ("error_rate", "ece", "mce", "adaptive_ece", "classwise_ece")


def cifar10():
    files = ("cifar10-30-epochs",), ("cifar10-meta", "cifar10-mbls"), ("cifar10-again",)
    image_table("CIFAR-10", files)


def tiny_imagenet():
    files = ("tiny-imagenet",), ("tiny-imagenet-resnet50",)
    image_table("Tiny-ImageNet", files)
    many_classes(*(file for group in files for file in group))


def image_table(title, groups):
    """All methods of each setting, the papers' numbers, and the differences with their tests."""
    print(
        f"\n{title}: {', '.join(IMAGE_METRICS)}, ECE with temperature, chosen, in %; NLL; "
        "error and ECE as printed"
    )
    for files in groups:
        found = defaultdict(list)
        for record in existing(*files):
            found[setting_of(record["recipe"]), name(record["recipe"])].append(record)
        for (setting, method), runs in sorted(found.items()):
            digits = [2 if m == "classwise_ece" else 1 for m in IMAGE_METRICS]
            shown = [
                percent([value(r, m) for r in runs], d)
                for m, d in zip(IMAGE_METRICS, digits, strict=True)
            ]
            for map_ in ("temperature", "auto"):
                scaled = [value(r, "ece", map_) for r in runs if map_ in r["results"]]
                shown.append(percent(scaled) if scaled else "–")
            shown += [f"{mean(value(r, 'nll') for r in runs):.3f}", printed(runs[0]["recipe"])]
            print(f"{setting:40}{method:55}" + " | ".join(shown))
        for setting in sorted({setting for setting, _ in found}):
            here = {m: runs for (s, m), runs in found.items() if s == setting}
            less_cross_entropy(setting, here)


def existing(*names):
    """Records of the files that are there."""
    return records(*(n for n in names if (RESULTS / f"{n}.jsonl").exists()))


def setting_of(recipe):
    return f"{recipe['model']}, {recipe['epochs']} epochs at {recipe['learning_rate']}"


def printed(recipe):
    """Error and ECE of a paper for the same network and method, in per cent."""
    whole = Recipe.from_dict(recipe)
    values = [image_value(whole, metric) for metric in ("error_rate", "ece")]
    return ", ".join("–" if v is None else f"{100 * v:.1f}" for v in values)


def less_cross_entropy(setting, found):
    """Differences to cross-entropy, paired by seed, one family of tests per metric."""
    base = {run["recipe"]["seed"]: run for run in found.get("cross_entropy", ())}
    columns = (
        ("error_rate", "identity"), ("ece", "identity"), ("ece", "temperature"), ("ece", "auto"),
        ("nll", "auto"),
    )  # fmt: skip
    for metric, map_ in columns:
        less = defaultdict(list)
        for method, runs in found.items():
            for run in runs:
                other = base.get(run["recipe"]["seed"], run)
                if other is not run and all(map_ in r["results"] for r in (run, other)):
                    difference = value(run, metric, map_) - value(other, metric, map_)
                    less["", method].append((1 if metric == "nll" else 100) * difference)
        several = {key: values for key, values in less.items() if len(values) > 1}
        if several:
            title = f"{setting}, {metric} {map_}, less cross-entropy"
            print_family(title, several)


def many_classes(*names):
    """Calibrators for many classes: accuracy, ECE and classwise ECE in %, NLL, of each method."""
    print("\nMany classes, by calibrator: accuracy, ECE, classwise ECE in %; NLL")
    found = defaultdict(list)
    for record in existing(*names):
        for map_ in record["results"]:
            found[setting_of(record["recipe"]), name(record["recipe"]), map_].append(record)
    for (setting, method, map_), runs in found.items():
        shown = [
            percent([value(r, metric, map_) for r in runs], digits)
            for metric, digits in (("accuracy", 1), ("ece", 1), ("classwise_ece", 3))
        ]
        shown.append(f"{mean(value(r, 'nll', map_) for r in runs):.3f}")
        print(f"{setting:40}{method:55}{map_:20}" + " | ".join(shown))
    best = Counter()
    for record in existing(*names):
        nll = {map_: value(record, "nll", map_) for map_ in record["results"]}
        best[min(nll, key=nll.get)] += 1
    print("lowest NLL, runs:", dict(best))


def architectures():
    print(
        "\nCIFAR-10, accuracy; ECE as trained, with temperature: clean, mean of strengths 1, 3, 5"
    )
    found = defaultdict(list)
    for record in records("cifar10-architectures"):
        plain, scaled = (record["results"][map_] for map_ in ("identity", "temperature"))
        shown = [plain["test"]["accuracy"], plain["test"]["ece"], scaled["test"]["ece"]]
        for strength in "135":
            parts = [part for part in plain["shift"] if part.endswith(f"-{strength}")]
            columns = ((plain, "accuracy"), (plain, "ece"), (scaled, "ece"))
            shown += [mean(of["shift"][p][m] for p in parts) for of, m in columns]
        found[record["recipe"]["model"]].append(shown)
    for model, runs in found.items():
        print(f"{model:16}" + " | ".join(percent(column) for column in zip(*runs, strict=True)))


def entities():
    print("\nWhole entities: ECE of products as trained, (T), chosen map; learned: ECE, AUROC")
    found = defaultdict(list)
    for record in records("entities"):
        maps = ("identity", "temperature", "auto")
        shown = [value(record, "entity_ece", map_) for map_ in maps]
        learned = record["results"]["auto"]["entities"]
        found[record["recipe"]["data"]].append([*shown, learned["ece"], learned["auroc"]])
    for corpus, runs in found.items():
        print(f"{corpus:14}" + " | ".join(percent(column) for column in zip(*runs, strict=True)))


def masks():
    print("\nMasks: accuracy, mean IoU; ECE of all, inside, borders, out of domain (temperature)")
    for method, runs in by_method("segmentation"):
        parts = ("test", "ece"), ("test", "inside_ece"), ("test", "border_ece"), ("ood", "ece")
        shown = [f"{mean(value(r, m) for r in runs):.3f}" for m in ("accuracy", "mean_iou")]
        for part, metric in parts:
            both = [
                100 * mean(r["results"][map_][part][metric] for r in runs)
                for map_ in ("identity", "temperature")
            ]
            shown.append("{:.1f} ({:.1f})".format(*both))
        print(f"{method:50}" + "  ".join(shown))


def camvid():
    """Photographs: every network, method and calibrator; corrupted ones; classes."""
    print(
        "\nCamVid: accuracy, mean IoU; ECE of all, inside, borders, median image, in %; NLL; "
        "ECE of corrupted photographs"
    )
    found = defaultdict(list)
    for record in existing("camvid"):
        for map_ in record["results"]:
            found[setting_of(record["recipe"]), name(record["recipe"]), map_].append(record)
    metrics = ("accuracy", "mean_iou", "ece", "inside_ece", "border_ece", "image_ece_median")
    for (setting, method, map_), runs in found.items():
        shown = [percent([value(r, metric, map_) for r in runs]) for metric in metrics]
        shown.append(f"{mean(value(r, 'nll', map_) for r in runs):.3f}")
        for part in runs[0]["results"][map_].get("shift", ()):
            parts = [r["results"][map_]["shift"][part] for r in runs]
            shown.append(f"{part} {percent([p['ece'] for p in parts])}")
        print(f"{setting:38}{method:50}{map_:20}" + " | ".join(shown))
    for (setting, method, map_), runs in found.items():
        if method == "cross_entropy" and map_ in ("identity", "temperature"):
            classes_of(f"{setting}, {map_}", [r["results"][map_].get("classes", {}) for r in runs])


def classes_of(title, tables):
    """IoU, accuracy, confidence and ECE of each class, means over seeds."""
    print(f"{title}: IoU, accuracy, confidence, ECE of the pixels predicted as each class")
    for label in tables[0]:
        rows = [table[label] for table in tables]
        columns = ("iou", "accuracy", "mean_confidence", "ece")
        shown = [[row[c] for row in rows if row[c] is not None] for c in columns]
        print(f"  {label:12}" + "  ".join(f"{mean(v):.3f}" if v else "–" for v in shown))


def texts():
    print("\nTexts: accuracy; ECE, AUROC in against out of scope: as trained, temperature, chosen")
    for data in ("clinc", "newsgroups"):
        for method, runs in by_method(data):
            shown = [f"{mean(value(r, 'accuracy') for r in runs):.3f};"]
            maps = ("identity", "temperature", "auto")
            shown += [f"{100 * mean(value(r, 'ece', map_) for r in runs):.1f}" for map_ in maps]
            if data == "clinc":
                outside = [[r["results"][map_]["outside"]["auroc"] for r in runs] for map_ in maps]
                shown += [f"{mean(values):.3f}" for values in outside]
            print(f"{data:12}{method:40}" + "  ".join(shown))


def by_method(file):
    found = defaultdict(list)
    for record in records(file):
        found[name(record["recipe"])].append(record)
    return found.items()


if __name__ == "__main__":
    methods_at_width_128()
    differences(cells())
    families(cells())
    cells_won(cells())
    meta_regularised(cells())
    paper_setting()
    variants(cells())
    depths()
    training_time()
    default_recipe(cells())
    out_of_domain()
    entities()
    cifar10()
    tiny_imagenet()
    architectures()
    masks()
    camvid()
    texts()
