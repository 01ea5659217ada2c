"""Blocks, replicates and intervals."""

import functools
import math
from statistics import NormalDist

import metric_loops as loops
import numpy as np
import pytest

from calibrant import Predictions
from calibrant.errors import InputError
from calibrant.metrics import (
    METRICS,
    Bins,
    CalibrationState,
    Confidences,
    accumulate,
    accuracy,
    adaptive_ece,
    apcr,
    assign_blocks,
    augrc,
    aurc,
    auroc,
    bootstrap_interval,
    brier,
    chance_ece,
    classwise_ece,
    confidences,
    debiased_rms_ece,
    ece,
    entity_counts,
    entity_ece,
    entity_f1,
    entity_state,
    error_rate,
    ks_error,
    mce,
    mean_confidence,
    nll,
    replicate,
    smooth_ece,
    token_f1,
)
from calibrant.metrics.blocks import hash_values
from calibrant.metrics.bootstrap import _weights, effective_groups, skewness_of_mean
from calibrant.metrics.interval_ends import _surely_kept
from calibrant.metrics.selective import RiskCoverage

HASHES = {
    # The first is the first number of SplitMix64 from seed 0, as its authors print it.
    "int": [0xE220A8397B1DCDAF, 10451216379200822465, 16490336266968443936],
    "text": [14087677454934409008, 6857225946766476583, 5037683833681838956],
}
SORTED = [adaptive_ece, aurc, auroc, augrc, ks_error, smooth_ece]


def grouped(n=200, groups=40):
    """Predictions in groups, some larger than others, with tags as label names."""
    p = loops.sample("logits64", n)
    sentence = np.sort(np.random.default_rng(3).integers(0, groups, n))
    names = ["O", "B-X", "I-X", "B-Y"]
    return Predictions.from_logits(
        p.scores, p.labels, label_names=names, groups={"sentence": sentence}
    )


def drawn(p, block, weights):
    """The replicate by plain repetition: every row as often as its block was drawn."""
    return p[np.repeat(np.arange(len(p)), weights[block])]


def test_a_replicate_is_the_metric_of_the_drawn_rows():
    p, blocks = grouped(), 50
    block = assign_blocks(p, blocks=blocks)
    state = accumulate(p, block=block, blocks=blocks)
    weights = _weights(np.bincount(block, minlength=blocks) > 0, 5, seed=7)
    for metric in (ece, mce, accuracy, nll, brier, classwise_ece):
        values = replicate(metric, state, replicates=5, seed=7)
        expected = [metric(drawn(p, block, row)) for row in weights]
        assert values.tolist() == pytest.approx(expected)
    for metric in SORTED:
        values = replicate(metric, confidences(p, block), replicates=5, seed=7)
        expected = [metric(drawn(p, block, row)) for row in weights]
        assert values.tolist() == pytest.approx(expected)


def test_entity_replicates_draw_whole_sentences():
    p, blocks = grouped(), 50
    block = assign_blocks(p, blocks=blocks)
    weights = _weights(np.bincount(block, minlength=blocks) > 0, 4, seed=1)
    whole = entity_counts(p, block=block, blocks=blocks)
    # Blocks without an entity hold nothing to draw: pass the same weights to both by hand.
    for row in weights:
        counts = whole.resampled(row[None])
        parts = [entity_counts(p[block == b]) for b in np.repeat(np.arange(blocks), row)]
        assert counts.correct[0].tolist() == sum(parts).correct.tolist()
        assert counts.gold[0].tolist() == sum(parts).gold.tolist()


def test_joint_replicates():
    p, blocks = grouped(), 50
    block = assign_blocks(p, blocks=blocks)
    counts, state = (
        entity_counts(p, block=block, blocks=blocks),
        accumulate(p, block=block, blocks=blocks),
    )
    low, high = bootstrap_interval(lambda c, s: apcr(entity_f1(c), ece(s)), (counts, state))
    assert 0 <= low < high
    with pytest.raises(InputError, match="same leading axis"):
        bootstrap_interval(ece, (counts, accumulate(p, block=block, blocks=60)))


def test_intervals_hold_the_estimate_and_widen_with_the_level():
    p = grouped()
    block = assign_blocks(p)
    state, each = accumulate(p, block=block, blocks=1000), confidences(p, block)
    for metric in (ece, mce, accuracy, nll, brier, classwise_ece, *SORTED):
        source = each if metric in SORTED else state
        few = {"replicates": 100} if metric in SORTED else {}
        low, high = bootstrap_interval(metric, source, **few)
        assert low <= metric(p) <= high
        inner = bootstrap_interval(metric, source, level=0.5, **few)
        assert inner[1] - inner[0] < high - low


def test_by_type_there_is_one_interval_each():
    p = grouped()
    state = entity_state(p, by_type=True, block=assign_blocks(p), blocks=1000)
    low, high = bootstrap_interval(ece, state)
    assert low.shape == high.shape == (2,)
    assert (low <= ece(entity_state(p, by_type=True))).all()


def test_dependence_widens_the_interval():
    """Copies of each example in one group: as much information as without them, not more."""
    one = loops.sample("logits64", 150)
    copies = one[np.repeat(np.arange(150), 20)]
    together = Predictions.from_logits(
        copies.scores, copies.labels, groups={"sentence": np.repeat(np.arange(150), 20)}
    )
    width = {}
    for name, by in {"by sentence": "auto", "by row": None}.items():
        state = accumulate(together, block=assign_blocks(together, by), blocks=1000)
        width[name] = np.subtract(*bootstrap_interval(accuracy, state)[::-1])
    state = accumulate(one, block=assign_blocks(one), blocks=1000)
    alone = np.subtract(*bootstrap_interval(accuracy, state)[::-1])
    assert width["by sentence"] == pytest.approx(alone, rel=0.15)
    assert width["by row"] < 0.4 * alone


def test_width_of_an_accuracy_is_the_binomial_one():
    labels = np.arange(2000) % 5 == 0  # 80 % right.
    p = Predictions.from_probabilities(np.full(2000, 0.1), labels.astype(int))
    low, high = bootstrap_interval(
        accuracy, accumulate(p, block=assign_blocks(p), blocks=1000), seed=2
    )
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(0.8 * 0.2 / 2000), rel=0.25)
    assert (low + high) / 2 == pytest.approx(0.8, abs=0.005)


def test_a_calibrated_model_is_not_called_miscalibrated_by_its_own_noise():
    """The percentiles of the biased ECE lie above the ECE itself; the interval reaches 0."""
    rng = np.random.default_rng(5)
    confidence = rng.uniform(0.5, 1, 400)
    p = Predictions.from_probabilities(confidence, (rng.random(400) < confidence).astype(int))
    state = accumulate(p, block=assign_blocks(p), blocks=1000)
    percentile, auto = (
        bootstrap_interval(ece, state, method="percentile"),
        bootstrap_interval(ece, state),
    )
    assert auto[0] == 0 < percentile[0]
    assert auto[0] <= ece(p) <= auto[1]
    assert auto == bootstrap_interval(functools.partial(ece), state)
    plain = bootstrap_interval(accuracy, state, method="percentile")
    assert bootstrap_interval(accuracy, state) == pytest.approx(plain, abs=5e-3)


@pytest.mark.parametrize("sentences", [0, 60])
def test_an_ece_beyond_chance_has_an_interval_above_zero(sentences):
    rng, doubted = np.random.default_rng(7), 0
    for _ in range(20):
        confidence = rng.uniform(0.5, 1, 600) ** 0.5
        if sentences:  # Every tenth word decides for the ten of its sentence.
            confidence = np.repeat(confidence[::10], 10)
        luck = np.repeat(rng.random(60), 10) if sentences else rng.random(600)
        groups = {"sentence": np.repeat(np.arange(60), 10)} if sentences else {}
        labels = (luck < confidence ** (4.0 if sentences else 1.5)).astype(int)
        p = Predictions.from_probabilities(confidence, labels, groups=groups)
        state = accumulate(p, block=assign_blocks(p), blocks=1000)
        chance = chance_ece(state if sentences else p, quantile=0.9875)[1]
        low, high = bootstrap_interval(ece, p, replicates=200)
        assert low <= ece(p) <= high
        doubted += ece(p) > chance
        assert low > 0 or ece(p) <= chance
    assert doubted > 5


def test_the_lower_end_of_one_bin_is_that_of_its_accuracy():
    """70 of 100 are right at 90 %: by Clopper & Pearson at most 78.8 % could be right."""
    p = Predictions.from_probabilities([0.9] * 100, [1] * 70 + [0] * 30)
    low, _ = bootstrap_interval(ece, p, replicates=4000)
    assert low == pytest.approx(0.9 - 0.788, abs=0.015)


def test_the_lower_end_does_not_count_the_noise_of_honest_bins():
    """One bin of ten is off; the sum of absolute values has the noise of nine honest ones too."""
    rng, missed = np.random.default_rng(1), 0
    for _ in range(40):
        confidence = rng.choice(np.linspace(0.52, 0.97, 10), 3000)
        right = np.where(confidence > 0.95, confidence - 0.2, confidence)
        p = Predictions.from_probabilities(confidence, (rng.random(3000) < right).astype(int))
        missed += bootstrap_interval(ece, p, replicates=200)[0] > 0.02
    assert missed <= 3


def test_an_ece_of_nothing_off_and_of_certainty():
    exact = Predictions.from_probabilities([0.5] * 10, [1] * 5 + [0] * 5)
    assert bootstrap_interval(ece, exact)[0] == 0
    sure = Predictions.from_probabilities([1.0] * 50, [1] * 50)
    low, high = bootstrap_interval(ece, sure)
    assert low == 0
    assert high == pytest.approx(1 - 0.025 ** (1 / 50))  # So many may be wrong elsewhere.
    wrong = Predictions.from_probabilities([1.0] * 50, [0] * 50)
    low, high = bootstrap_interval(ece, wrong)
    assert 0.9 < low <= high == 1


def test_options_of_a_metric_are_those_of_its_interval():
    p = grouped()
    for metric, make in (
        (
            functools.partial(ece, bins=4, closed="left"),
            functools.partial(accumulate, bins=Bins(4, "left")),
        ),
        (
            functools.partial(entity_ece, reduction="min"),
            functools.partial(entity_state, reduction="min"),
        ),
    ):
        state = make(p, block=assign_blocks(p), blocks=1000)
        asked, plain = bootstrap_interval(metric, p), bootstrap_interval(metric.func, p)
        assert asked == bootstrap_interval(metric.func, state) != plain
        assert asked[0] <= metric(p) <= asked[1]


def test_few_groups_widen_the_interval_as_student_does():
    """Ten groups of the same size: t₀.₉₇₅(9) √(10 / 9) / 1.96 = 1.217 times as wide."""
    rng = np.random.default_rng(0)
    groups = {"sentence": np.repeat(np.arange(10), 30)}
    p = Predictions.from_probabilities(np.full(300, 0.7), rng.integers(0, 2, 300), groups=groups)
    block = np.repeat(np.arange(10), 30)
    state = accumulate(p, block=block, blocks=10)
    plain = np.array(bootstrap_interval(accuracy, state, method="percentile"))
    wide = np.array(
        bootstrap_interval(lambda s: accuracy(s), state)
    )  # Not known to be a proportion.
    assert np.ptp(wide) / np.ptp(plain) == pytest.approx(1.2166, abs=1e-3)
    assert effective_groups(state) == pytest.approx(10)
    assert effective_groups(confidences(p, block)) == pytest.approx(10)


def test_unequal_groups_count_as_fewer():
    block = np.repeat(np.arange(3), [80, 10, 10])
    p = Predictions.from_probabilities(np.full(100, 0.7), np.arange(100) % 2)
    wanted = (80**1.5 + 2 * 10**1.5) ** 2 / (80**3 + 2 * 10**3)  # 1.18
    assert effective_groups(accumulate(p, block=block, blocks=5)) == pytest.approx(wanted)
    assert effective_groups(confidences(p, block)) == pytest.approx(wanted)


def test_ends_are_those_of_the_logit_or_the_logarithm_where_they_are_wider():
    """By hand: nine groups of ten examples are right, one is right in three."""
    block = np.repeat(np.arange(10), 10)
    p = Predictions.from_probabilities(np.full(100, 0.7), np.arange(100) >= 7)
    state = accumulate(p, block=block, blocks=10)
    low, high = bootstrap_interval(accuracy, state)
    values = replicate(accuracy, state)
    mean, step = values.mean(), 2.262157 * math.sqrt(10 / 9) * values.std()  # t with 9 degrees
    moved = math.log(0.93 / 0.07) - step / (mean * (1 - mean))
    assert low == pytest.approx(1 / (1 + math.exp(-moved)), rel=1e-5)
    assert low < 0.6 < 0.70 < bootstrap_interval(lambda s: accuracy(s), state)[0]
    assert high == 1
    losses = replicate(nll, state)  # One group has all seven mistakes: Σ e³ / (Σ e²)^1.5.
    off = np.array([0.63] + [-0.07] * 9)
    skewness = (off**3).sum() / (off**2).sum() ** 1.5
    assert skewness_of_mean(nll, state) == pytest.approx(skewness, rel=1e-5)
    root = np.cbrt(1 - skewness * (2.262157 * math.sqrt(10 / 9) + skewness / 6))  # Hall 1992
    wanted = nll(p) + 3 * (1 - root) / skewness * losses.std()
    assert bootstrap_interval(nll, state)[1] == pytest.approx(wanted, rel=1e-5)


def test_the_logarithm_is_wider_where_losses_are_hardly_skewed():
    block = np.repeat(np.arange(10), 10)
    wrong = np.arange(100) % 10 < 2 + np.arange(100) // 10 % 2 * 3  # Two or five in each group.
    p = Predictions.from_probabilities(np.full(100, 0.7), ~wrong)
    state = accumulate(p, block=block, blocks=10)
    losses = replicate(nll, state)
    far = 2.262157 * math.sqrt(10 / 9) * losses.std() / losses.mean()
    wanted = nll(p) * (1 + far + far**2 / 2)
    assert bootstrap_interval(nll, state)[1] == pytest.approx(wanted, rel=1e-5)


def test_losses_with_a_heavy_tail_are_held():
    """A few rows are wrong and sure of it: 178 of 198 intervals held the mean, now 191.

    benchmarks/interval_coverage.py --part losses has more cases.
    """
    rng, found, n = np.random.default_rng(0), [], 150
    odds = 20 * ((np.arange(400) + 0.5) / 400) ** 2  # The log-odds of mistakes.
    true = 0.03 * np.log1p(np.exp(odds)).mean() - 0.97 * math.log(0.999)
    for _ in range(200):
        wrong = rng.random(n) < 0.03
        confidence = np.where(wrong, 1 / (1 + np.exp(-rng.choice(odds, n))), 0.999)
        p = Predictions.from_probabilities(confidence, ~wrong)
        found.append(bootstrap_interval(nll, p, replicates=200))
    shown = [low <= true <= high for low, high in filter(None, found)]
    assert len(shown) == 198  # The others have no mistake.
    assert np.mean(shown) > 0.94


def test_only_means_of_finite_losses_are_skewed():
    p = Predictions.from_probabilities([[1.0, 0.0]] * 9 + [[0.5, 0.5]], [0] * 8 + [1, 1])
    state = accumulate(p, block=np.arange(10), blocks=10)
    assert skewness_of_mean(nll, state) == skewness_of_mean(ece, state) == 0
    assert skewness_of_mean(brier, state) > 0.5


@pytest.mark.parametrize("groups", [2, 10, 1000])
def test_groups_that_are_all_right_do_not_make_it_certain(groups):
    """Clopper and Pearson: a share q of right groups shows n of n with probability qⁿ."""
    block = np.repeat(np.arange(groups), 3)
    right = Predictions.from_probabilities(np.full(3 * groups, 0.9), np.ones(3 * groups, int))
    wrong = Predictions.from_probabilities(np.full(3 * groups, 0.9), np.zeros(3 * groups, int))
    where = {"block": block, "blocks": groups}
    least = 0.025 ** (1 / groups)
    assert bootstrap_interval(accuracy, accumulate(right, **where)) == pytest.approx((least, 1))
    wrongs = bootstrap_interval(error_rate, accumulate(right, **where))
    assert wrongs == pytest.approx((0, 1 - least))
    assert bootstrap_interval(accuracy, accumulate(wrong, **where)) == pytest.approx((0, 1 - least))
    assert bootstrap_interval(accuracy, accumulate(right, **where), method="percentile") == (1, 1)


@pytest.mark.parametrize("metric", [entity_f1, token_f1])
def test_an_entity_that_is_right_counts_once(metric):
    """It is among the predicted and among the gold ones, which are not twice as many examples."""
    names = ["O", "B-X"]
    right = Predictions.from_probabilities(np.full(20, 0.9), np.ones(20, int), label_names=names)
    assert bootstrap_interval(metric, right) == pytest.approx((0.025 ** (1 / 20), 1))
    block = {"block": np.arange(20), "blocks": 20}
    grouped = bootstrap_interval(metric, entity_counts(right, **block))
    assert grouped == pytest.approx(bootstrap_interval(metric, right))


def test_ten_groups_that_differ_are_covered():
    """Percentiles widened by Student's t alone held the truth in 88 % of these samples.

    The full measurement is benchmarks/interval_coverage.py.
    """
    rng, held, samples, truth = np.random.default_rng(0), [], 200, NormalDist().cdf(1.28)
    block = np.repeat(np.arange(10), 12)
    for _ in range(samples):
        score = math.sqrt(0.6) * rng.normal(size=10)[block] + math.sqrt(0.4) * rng.normal(size=120)
        p = Predictions.from_probabilities(np.full(120, 0.9), (score < 1.28).astype(int))
        low, high = bootstrap_interval(
            accuracy, accumulate(p, block=block, blocks=10), replicates=100
        )
        held.append(low <= truth <= high)
    assert np.mean(held) > 0.93


def test_intervals_stay_in_the_range_of_their_metric():
    """Three groups: Student's t would lead far outside of 0 to 1."""
    p = Predictions.from_probabilities([0.9, 0.9, 0.9, 0.9, 0.6, 0.6], [1, 1, 1, 0, 1, 0])
    block = np.array([0, 0, 1, 1, 2, 2])
    state, each = accumulate(p, block=block, blocks=3), confidences(p, block)
    for metric in (
        accuracy,
        ece,
        classwise_ece,
        debiased_rms_ece,
        mce,
        mean_confidence,
        brier,
        nll,
    ):
        low, high = bootstrap_interval(metric, state)
        assert 0 <= low <= metric(p) <= high, metric
        assert high <= {brier: 2, nll: math.inf}.get(metric, 1), metric
    for metric in (aurc, auroc, adaptive_ece, ks_error):
        low, high = bootstrap_interval(metric, each, replicates=200)
        assert 0 <= low <= metric(p) <= high <= 1, metric


def test_infinite_replicates_leave_an_infinite_end():
    p = Predictions.from_probabilities([[1.0, 0.0]] * 40, [0] * 39 + [1])
    low, high = bootstrap_interval(nll, accumulate(p, block=assign_blocks(p), blocks=1000))
    assert (low, high) == (0, math.inf)


def test_an_estimate_below_all_its_replicates_is_still_held():
    """Many classes, few examples: noise is all there is, and resampling doubles it."""
    rng = np.random.default_rng(0)
    scores = rng.dirichlet(np.ones(10), 200)
    labels = [rng.choice(10, p=row) for row in scores]
    p = Predictions.from_probabilities(scores, labels)
    state = accumulate(p, block=assign_blocks(p), blocks=1000)
    assert bootstrap_interval(classwise_ece, state, method="percentile")[0] > classwise_ece(p)
    low, high = bootstrap_interval(classwise_ece, state)
    assert low == 0 < classwise_ece(state.total()) < high


def test_merged_shards_give_the_same_interval():
    p = grouped()
    block = assign_blocks(p)
    whole = accumulate(p, block=block, blocks=1000)
    parts = [p[:80], p[80:]]  # The cut splits a sentence; its block is the same in both.
    merged = sum(accumulate(q, block=assign_blocks(q), blocks=1000) for q in parts)
    assert bootstrap_interval(ece, merged) == pytest.approx(bootstrap_interval(ece, whole))
    each = sum(confidences(q, assign_blocks(q)) for q in parts)
    few = {"replicates": 100}
    assert bootstrap_interval(ks_error, each, **few) == pytest.approx(
        bootstrap_interval(ks_error, confidences(p, block), **few)
    )


def test_the_seed_decides():
    p = grouped()
    state = accumulate(p, block=assign_blocks(p), blocks=1000)
    assert bootstrap_interval(ece, state, seed=1) == bootstrap_interval(ece, state, seed=1)
    assert bootstrap_interval(ece, state, seed=1) != bootstrap_interval(ece, state, seed=2)


def test_many_classes_are_resampled_in_parts():
    """More sums per replicate than fit at once give what they give at once."""
    rng = np.random.default_rng(0)
    p = Predictions.from_logits(rng.normal(size=(60, 400)), rng.integers(0, 400, 60))
    state = accumulate(p, block=np.arange(60), blocks=60)
    values = replicate(classwise_ece, state, replicates=300)
    weights = _weights(np.ones(60, bool), 300, seed=0)
    assert len(values) == 300
    assert values[-1] == pytest.approx(classwise_ece(drawn(p, np.arange(60), weights[-1])))


def test_infinite_losses_count_only_where_they_are_drawn():
    p = Predictions.from_probabilities([[1.0, 0.0]] + [[0.5, 0.5]] * 9, [1] + [0] * 9)
    state = accumulate(p, block=np.arange(10), blocks=10)
    values = replicate(nll, state, replicates=200)
    assert not np.isnan(values).any()
    finite = np.isfinite(values)
    assert 0.2 < finite.mean() < 0.5  # (1 − 1/10)^10 = 0.35 of the draws miss it.
    assert values[finite] == pytest.approx(math.log(2))


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_blocks_have_no_interval(n):
    p = grouped()[:n]
    state = accumulate(p, block=np.zeros(n, int), blocks=1000)
    assert bootstrap_interval(ece, state) is None
    assert bootstrap_interval(ks_error, confidences(p, np.zeros(n, int))) is None


def test_a_metric_that_is_never_defined_has_no_interval():
    right = Confidences(np.linspace(0.5, 1, 20), np.ones(20, bool), np.arange(20))
    assert bootstrap_interval(auroc, right) is None


RANKED = [auroc, METRICS["aurc"].function, METRICS["e_aurc"].function, METRICS["augrc"].function]


@pytest.mark.parametrize("metric", RANKED)
@pytest.mark.parametrize("wrong", [True, False])
def test_one_mistake_says_nothing_of_the_rank_of_others(metric, wrong):
    confidence, outcome = np.linspace(0.5, 1, 40), np.arange(40) == 7
    correct = ~outcome if wrong else outcome
    one = Confidences(confidence, correct, np.arange(40))
    assert bootstrap_interval(metric, one, independent=True) is None
    together = Confidences(confidence, correct & (np.arange(40) != 6), np.arange(40) // 4)
    assert bootstrap_interval(metric, together) is None or not wrong  # Two in one group.


def test_a_perfect_order_of_few_mistakes_is_not_certain():
    confidence = np.linspace(0.5, 1, 200)
    perfect = Confidences(confidence, np.arange(200) >= 5, np.arange(200))
    low, high = bootstrap_interval(auroc, perfect, independent=True)
    assert low == pytest.approx(0.025 ** (1 / 5))  # Of five mistakes; the interval was [1, 1].
    assert high == 1
    assert bootstrap_interval(METRICS["e_aurc"].function, perfect, independent=True) is None


def test_no_mistake_among_the_kept_does_not_exclude_some():
    confidence = np.linspace(0.5, 1, 100)
    kept_right = Confidences(confidence, np.arange(100) >= 3, np.arange(100))
    risk = METRICS["risk_at_coverage"].function  # Of the most confident 80.
    low, high = bootstrap_interval(risk, kept_right, independent=True)
    assert (low, high) == (0, pytest.approx(1 - 0.025 ** (1 / 80)))


def test_the_auroc_of_few_mistakes_is_covered():
    """Of 60 samples with two to six mistakes, where 95 % are stated; it was .77."""
    held = []
    for seed in range(120):
        random = np.random.default_rng(seed)
        right = random.random(100) > 0.04
        confidence = random.beta(np.where(right, 5, 3), 2)  # The AUROC is .74.
        c = Confidences(confidence, right, np.arange(100))
        if 2 <= (~right).sum() <= 6:
            low, high = bootstrap_interval(auroc, c, replicates=100, independent=True)
            held.append(low <= 0.7405 <= high)
    assert len(held) > 60
    assert np.mean(held) > 0.93


def test_beyond_a_million_examples_sorted_metrics_have_none():
    n = 1_000_001
    huge = Confidences(np.full(n, 0.5), np.zeros(n, bool), np.zeros(n, int))
    assert bootstrap_interval(ks_error, huge) is None


def test_wrong_arguments():
    p = grouped()
    with pytest.raises(InputError, match="leading axis of blocks"):
        bootstrap_interval(ece, accumulate(p))
    with pytest.raises(InputError, match="needs blocks"):
        bootstrap_interval(ks_error, confidences(p))
    state = accumulate(p, block=assign_blocks(p), blocks=1000)
    with pytest.raises(InputError, match="level"):
        bootstrap_interval(ece, state, level=95)
    with pytest.raises(InputError, match="replicate"):
        bootstrap_interval(ece, state, replicates=0)
    with pytest.raises(InputError, match="method"):
        bootstrap_interval(ece, state, method="bca")
    with pytest.raises(InputError, match="sentence"):
        assign_blocks(p, by="sentences")
    with pytest.raises(InputError, match="blocks"):
        assign_blocks(p, blocks=0)


IDS = np.arange(20_000)


@pytest.mark.parametrize("values", [IDS, IDS.astype("U"), IDS * 1000, IDS / 7, -IDS])
def test_blocks_keep_groups_whole_and_spread_evenly(values):
    groups = {"g": np.repeat(values, 2)}
    p = Predictions.from_probabilities(np.full(40_000, 0.5), np.zeros(40_000, int), groups=groups)
    block = assign_blocks(p, "g")
    assert (block[::2] == block[1::2]).all()
    count = np.bincount(block[::2], minlength=1000)
    assert 3.5 < count.std() < 5.5  # As of throwing 20,000 balls into 1000 boxes: √20.


def test_rows_have_blocks_of_their_own_as_long_as_they_last():
    p = Predictions.from_probabilities(np.full(50, 0.5), np.zeros(50, int))
    block = assign_blocks(p, blocks=30)
    assert block[:30].tolist() == list(range(30))
    assert block.max() < 30
    assert assign_blocks(p[40:], blocks=30, start=40).tolist() == block[40:].tolist()


def test_hashes_are_fixed():
    """The same in every version: shards that were made at different times must fit together."""
    assert hash_values(np.array([0, 1, -1])).tolist() == HASHES["int"]
    assert hash_values(np.array(["", "a", "sätze"])).tolist() == HASHES["text"]
    assert hash_values(np.array(["a"], "U9")).tolist() == HASHES["text"][1:2]
    assert hash_values(np.array([b"a"])).tolist() == HASHES["text"][1:2]
    assert hash_values(np.array([0.0, -0.0]))[0] == hash_values(np.array([0.0, -0.0]))[1]
    assert hash_values(np.array([True])).tolist() == HASHES["int"][1:2]
    assert len(hash_values(np.array([], "U1"))) == 0


def test_resampling_keeps_the_type():
    p = grouped()
    state = accumulate(p, block=assign_blocks(p), blocks=1000)
    assert isinstance(state.resampled(np.ones((2, 1000))), CalibrationState)


def test_text_of_any_width_and_kind_has_the_same_hash():
    texts = ["", "a", "ab", "w" * 40, "ä" * 300, "z" * 5000, "a"]
    long = hash_values(np.array(texts, dtype=object))
    assert (long == hash_values(np.array(texts, dtype=str))).all()
    assert len(set(long.tolist())) == 6


def test_no_estimate_lies_outside_its_own_interval():
    # 200 honest examples: the maximum over bins grows so much with each draw that most replicates,
    # and often the lower quantile too, lie above the estimate.
    outside = 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        claimed = random.uniform(0.5, 1, 200)
        p = Predictions.from_probabilities(claimed, random.random(200) < claimed)
        state = accumulate(p, block=assign_blocks(p), blocks=1000)
        low, high = bootstrap_interval(mce, state, replicates=200)
        assert low <= mce(state.total()) <= high
        plain = bootstrap_interval(mce, state, replicates=200, method="percentile")
        outside += not plain[0] <= mce(state.total()) <= plain[1]
    assert outside  # Else this test shows nothing.


def test_a_group_has_one_block_whether_its_chunk_looks_like_numbers_or_not():
    """Of a csv in chunks, one may hold 1, 2, 3 and the next 2, a7, 007."""
    texts = ["1", "-3", "0", "2.5", "1e+20", "inf", "007", "a7", "", "1_000", " 1", "nan", "-0"]
    texts += ["99999999999999999999", "9223372036854775807", "1" * 400]
    mixed = hash_values(np.array(texts, object))
    assert mixed.tolist() == [*hash_values(np.array(texts[:-1])).tolist(), mixed[-1]]
    numbers = [hash_values(np.array([1, -3, 0])), hash_values(np.array([2.5, 1e20, np.inf]))]
    assert mixed[:6].tolist() == np.concatenate(numbers).tolist()
    assert mixed[11] == hash_values(np.array([np.nan]))[0]
    assert mixed[14] == hash_values(np.array([2**63 - 1]))[0]
    assert len(set(mixed.tolist())) == len(texts)
    assert hash_values(np.array([], "U3")).size == hash_values(np.array(["", ""])).size - 2 == 0


def test_the_largest_coverage_within_a_risk_is_not_taken_for_sure():
    """7 % are wrong at every confidence: noise takes some coverage to 5 %, and replicates too."""
    metric = functools.partial(METRICS["coverage_at_risk"].function, risk=0.05)
    random = np.random.default_rng(0)
    hold = 0
    for _ in range(30):
        wrong = random.random(300) < 0.07
        p = Predictions.from_probabilities(random.uniform(0.6, 1, 300), 1 - wrong)
        hold += bootstrap_interval(metric, p, replicates=100)[0] == 0
    assert hold >= 28


def test_a_coverage_that_is_sure_by_hand():
    """Of 100 surest none is wrong, of 200 others half: 0.95^100 is .006, so half is too little."""
    metric = functools.partial(METRICS["coverage_at_risk"].function, risk=0.05)
    confidence = np.r_[np.full(100, 0.9), np.full(200, 0.6)]
    p = Predictions.from_probabilities(confidence, np.r_[np.ones(200, int), np.zeros(100, int)])
    assert 0.25 < bootstrap_interval(metric, p)[0] <= 1 / 3
    assert bootstrap_interval(metric, p[30:])[0] == 0  # 0.95^70 is .028.


@pytest.mark.parametrize("risk", [0.01, 0.05, 0.2])
def test_sure_coverage_is_sure_by_the_binomial(risk):
    metric = functools.partial(METRICS["coverage_at_risk"].function, risk=risk)
    random = np.random.default_rng(1)
    found = []
    for _ in range(40):
        wrong = np.cumsum(random.random(500) < random.uniform(0, risk))
        n = np.arange(1, 501)
        curve = RiskCoverage(1 - n / 1000, n / 500, wrong / n)
        sure = _surely_kept(metric, curve, 500, 0.025)
        found.append(sure)
        if sure:
            k, m = wrong[round(500 * sure) - 1], round(500 * sure)
            tail = sum(math.comb(m, i) * risk**i * (1 - risk) ** (m - i) for i in range(k + 1))
            assert tail <= 0.025
    assert max(found) > 0


def test_the_mean_of_confidences_that_crowd_at_1_is_held() -> None:
    """Of a rare class few scores make most of the mean: samples without them look too sure."""
    random, truth, held = np.random.default_rng(0), 0.998356, 0
    for _ in range(300):
        scores = np.minimum(1 / (1 + np.exp(-random.normal(-8, 1.8, 40))), 0.5)
        p = Predictions.from_probabilities(np.stack([1 - scores, scores], 1), np.zeros(40, int))
        low, high = bootstrap_interval(mean_confidence, p, replicates=200)
        held += low <= truth <= high
    assert held >= 255  # Without the skewness 237 to 244.
