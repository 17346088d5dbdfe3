"""Learning a constraint on actions from transitions and costs of states, in any of the forms."""

from __future__ import annotations

from cvflows.constraints.backup import learn_backup
from cvflows.constraints.learned import FORMS, Costs, Transitions
from cvflows.constraints.learning import Learned, learn_costs
from cvflows.errors import look_up


def learn(
    transitions: Transitions,
    cost: Costs,
    form: str = "stopping",
    *,
    family: str | None = None,
    alpha: float | None = None,
    seed: int = 0,
) -> Learned:
    """The constraint of `form`, learned from transitions of a policy that tried many actions.

    **Arguments:**

    - `cost`: c(s), a JAX function of an observation that is ≤ 0 where it is safe, such as `Ranges`; for the form
      `backup` it must be `Ranges` or `Planes`.
    - `form`: `paper`, `drift`, `stopping`, `cbf` or `backup`, see `LearnedConstraint`.
    - `family`: of signal models. `network`: one hidden layer of ten, as the paper's reference; `affine` or `quadratic`
      in the observation, by least squares. By default a network for `paper`, else affine, or quadratic where that
      predicts far better.
    - `alpha`: rows are tightened by what covers a share 1 - α of held-out steps from safe states; by default by the
      largest error on any transition.
    """
    look_up("form", form, FORMS)
    form = form.casefold()
    if form == "backup":
        return learn_backup(transitions, cost, family=family, alpha=alpha, seed=seed)
    return learn_costs(transitions, cost, form, family=family, alpha=alpha, seed=seed)
