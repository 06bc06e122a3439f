"""The eleven criteria of the controlled study, in the order of `tab:criteria`."""

from __future__ import annotations

from tap.criteria.affinity import redundancy
from tap.criteria.base import Criterion
from tap.criteria.coverage import coverage
from tap.criteria.diversity import k_centre
from tap.criteria.norms import l1, l2
from tap.criteria.scores import largest, random
from tap.errors import UserError

CRITERIA: dict[str, Criterion] = {
    criterion.name: criterion
    for criterion in (
        Criterion("random", "Random", "reference", "seeded permutation keyed by sample and layer", largest(random)),
        Criterion(
            "attention_mean",
            "Attention mean",
            "attention",
            "largest incoming attention, averaged over heads and queries",
            largest(lambda inputs: inputs.mean_attention),
            needs_attention=True,
        ),
        Criterion(
            "attention_max",
            "Attention max",
            "attention",
            "largest incoming attention from any head and query",
            largest(lambda inputs: inputs.max_attention),
            needs_attention=True,
        ),
        Criterion(
            "token_l1",
            r"Activation $\ell_1$",
            "magnitude",
            r"largest $\ell_1$ norm of the token before LayerNorm",
            largest(lambda inputs: l1(inputs.features)),
        ),
        Criterion(
            "token_l2",
            r"Activation $\ell_2$",
            "magnitude",
            r"largest $\ell_2$ norm of the token before LayerNorm",
            largest(lambda inputs: l2(inputs.features)),
        ),
        Criterion(
            "key_l2",
            r"Key $\ell_2$",
            "magnitude",
            r"largest $\ell_2$ norm of the projected key",
            largest(lambda inputs: l2(inputs.keys)),
        ),
        Criterion("coverage", "Coverage", "spatial", "farthest points among patch centres, centre first", coverage),
        Criterion(
            "token_kcenter",
            "Token k-centre",
            "diversity",
            "farthest points among tokens by cosine, nearest to their mean first",
            k_centre(lambda inputs: inputs.token_cosines),
        ),
        Criterion(
            "key_kcenter",
            "Key k-centre",
            "diversity",
            "farthest points among keys by cosine, nearest to their mean first",
            k_centre(lambda inputs: inputs.key_cosines),
        ),
        Criterion(
            "token_redundancy",
            "Token redundancy",
            "affinity",
            "of the closest two tokens by cosine, the more redundant goes",
            redundancy(lambda inputs: inputs.token_cosines),
        ),
        Criterion(
            "key_redundancy",
            "Key redundancy",
            "affinity",
            "of the closest two keys by cosine, the more redundant goes",
            redundancy(lambda inputs: inputs.key_cosines),
        ),
    )
}


def get(name: str) -> Criterion:
    """The criterion of a name.

    Raises:
        UserError: no criterion has this name.
    """
    if name not in CRITERIA:
        raise UserError(f"criterion: '{name}' is not known; choose from {', '.join(CRITERIA)}")
    return CRITERIA[name]
