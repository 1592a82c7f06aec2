"""The opening of docs/results.md."""

HEAD = """# Results: the paper's experiments, reproduced

Written by `lhb reproduce report` from the records in docs/results, a file a run; do not edit
by hand. `lhb reproduce NAME && lhb reproduce report` runs one experiment again and replaces its
record, its figure and its section here. A record keeps each statistic as mean, standard error and
number of seeds, or as counts. Records of kind "stated" hold the rounded intervals of an earlier
edition instead; their processor time is that of one seed times the number of seeds. Code is named
by a digest of what the numbers depend on (`sweep.code_digest`), which holds where a commit is not
kept.

The rules were committed before the results: [claims.toml](claims.toml) gives each claim's place in
the paper, statistic, settings, margin and seeds, with the date and the reason of every change. A
verdict is computed from its rule alone. There are three, **in these worlds at these sizes**:

- **holds**: the whole interval is on the claimed side, in all settings of the rule (or in most);
- **does not hold**: in at least one setting the whole interval is on the other side;
- **undecided**: neither; more seeds would be needed.

Intervals have 95% for all settings of a claim together (Bonferroni; Student's t over seeds, exact
binomial for shares). Comparisons are paired: every agent plays the same worlds. Margins are those
of the rules: "far below" asks for less than 0.9 times the rival's regret, "below" for less than it,
"as well as" for less than 1.1 times. Exponents that the paper gives as an upper bound are tested
from one side; where the measured one is far below it, the verdict says that the bound's rate is
not seen. A verdict on fewer seeds than its rule asks for is marked provisional; on fewer than 10,
or in other settings, nothing is judged.

What the paper leaves open and what we chose, unless an experiment says otherwise: K = {arms} arms,
noise sd {noise:g}, contexts uniform on [-1, 1]^d, theta uniform on the unit sphere, support of w
uniform, sum(w) = 1, no intercept, L = h // 12, the sign of theta from sum(w) >= 0. AD-Lasso is
shown twice: `ad_lasso` chooses lambda from the measured noise, `ad_lasso, paper's lambda` takes the
paper's formula at c = 0.003, which no other constant that was tried beats by more than the noise.
It and its rivals were tuned alike, on the same worlds and seeds, which no other run uses
([tuning](#tuning)). SA-GD is told the true number of active lags, as in the paper, and descends
until it has converged.

**AD-Lasso's first fit is not the paper's.** With L = h // 12 its first epoch has 8 pairs of
differenced rows for 5 unknowns a lag: too few for a fit (2 d are needed). So in every data-rich run
the first fit takes both quarters undifferenced, with an intercept (`fallback`), here and in the
ablation at L = 8. The variants called "never falls back" keep to the paper and have no estimate
there.
"""
