"""The opening of docs/results.md."""

HEAD = """# Results: the paper's experiments, reproduced

`lhb reproduce report` writes this page from the records in docs/results; do not edit it by hand.
`lhb reproduce NAME && lhb reproduce report` runs one experiment again and replaces its record, its
figure and its section. A record (linked from [Runs](#runs)) keeps each statistic of each setting.

[claims.toml](claims.toml) has the rules, committed before the results: each claim's place in the
paper, statistic, settings, margin and seeds, and each change with its date and reason. A verdict
follows from its rule alone, **in these worlds at these sizes**. A claim *holds* where the whole
interval is on the claimed side in all settings of the rule (or in most), and *does not hold* where
the whole interval of one setting is on the other side; else it is *undecided* and needs more seeds.
With fewer seeds than the rule requires a verdict is *provisional*; below 10 nothing is judged.

Intervals have 95% for all settings of a claim together (Bonferroni; Student's t over seeds, exact
binomial for shares). All agents play the same worlds, and comparisons are paired: the statistic is
the mean over seeds of one regret less a multiple of the other (0.9 for "far below", 1 for "below",
1.1 for "as well as"). It is required to be below 0 unless a claim says otherwise, and the setting
that decides follows each verdict. Exponents that the paper gives as upper bounds are tested from
one side: where one holds *within the bound*, the bound's rate is not seen.

Unless a section says otherwise: {seeds} seeds, K = {arms} arms, noise sd {noise:g}, contexts
uniform on [-1, 1]^d, theta uniform on the unit sphere, support of w uniform, sum(w) = 1, no
intercept, L = h // 12, the sign of theta from sum(w) >= 0. `ad_lasso` chooses lambda from the
measured noise; `ad_lasso, paper's lambda` takes the paper's formula at c = 0.003. All agents were
tuned alike on seeds that no other run uses ([tuning](#tuning)). SA-GD is told the true number of
active lags, as in the paper, and descends until it has converged. Lines of figures are means over
seeds; their shading is one standard error.

**AD-Lasso's first fit is not the paper's** in data-rich runs, nor in the ablation at L = 8: with
fewer pairs of rows than 2 d it takes both quarters undifferenced, with an intercept. Variants
called "never falls back" have no estimate there.
"""
