"""Where each published method comes from, and what this project does otherwise than its public code.

The code here is written anew after the papers and the behaviour of the public implementations, whose outputs the tests
reproduce; none of it is copied, so no licence of these is inherited. They are named for the reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NO_LICENCE: Final = "no licence stated"


@dataclass(frozen=True)
class Provenance:
    """Origin of one method.

    Attributes:
        repository: public code, as owner/name on GitHub.
        commit: the state whose outputs the tests reproduce.
        licence: of that code.
        path: what the method does in classification; empty for a method of dense tasks alone.
        readout: how a dense head gets a feature at every position; empty for a method of classification alone.
        adapted: differences from the public code.
        adapted_dense: differences in dense tasks alone.
    """

    repository: str
    commit: str
    licence: str
    path: str = ""
    readout: str = ""
    adapted: tuple[str, ...] = ()
    adapted_dense: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """Repository, state and licence in words."""
        return f"own code after {self.repository} at {self.commit}, {self.licence}"


PROVENANCE: Final[dict[str, Provenance]] = {
    "attn_topk": Provenance(
        "youweiliang/evit",
        "5ca95a7",
        "Apache-2.0",
        readout="EViT score without the fused token, no native readout, common recovery",
        adapted=("mean incoming attention where there is no class token",),
    ),
    "evit": Provenance(
        "youweiliang/evit",
        "5ca95a7",
        "Apache-2.0",
        path="token fusion",
        adapted=("counts instead of rates, so that K is exact beside the fused token",),
    ),
    "dynamicvit": Provenance(
        "raoyongming/DynamicViT",
        "1322e62",
        "MIT",
        path="learned predictors, masked attention and dense teacher in training",
        adapted=(
            "the teacher is the no-pruning checkpoint of the same seed",
            "phases as shares of the common budget",
            "neither frozen phase nor slow backbone where training starts from MAE weights",
        ),
    ),
    "evovit": Provenance(
        "YifanXu74/Evo-ViT",
        "4c5d9b3",
        NO_LICENCE,
        path="slow-fast update (fast patches wait unchanged), mean of all patches at the head",
        adapted=("stages from the first step on instead of after 200 epochs with a choice at every block",),
    ),
    "ats": Provenance(
        "adaptivetokensampling/ATS",
        "9271257",
        "Apache-2.0",
        path="attention sampling",
        adapted=(
            "the number of samples is calibrated to a mean of K",
            "no sampling in the last block",
            "the draw of an image does not depend on its batch",
        ),
    ),
    "tome": Provenance(
        "facebookresearch/ToMe",
        "af95e4b",
        "CC BY-NC 4.0",
        path="bipartite merging by keys in every block",
        readout="each position copies the merged token that holds it",
        adapted=("merges per block are chosen so that exactly K tokens reach the last one",),
    ),
    "diffrate": Provenance(
        "OpenGVLab/DiffRate",
        "91ae3e3",
        NO_LICENCE,
        path="searched counts of pruning and merging",
        readout="no native readout, common recovery",
        adapted=(
            "the final count is pinned to K",
            "search as a share of the common budget, from counts that end at K, to the cost of the common schedule",
        ),
    ),
    "algm": Provenance(
        "tue-mps/algm-segmenter",
        "674eaa2",
        "MIT, parts CC BY-NC 4.0",
        readout="each position copies the merged token that holds it",
        adapted=("thresholds of each image alone, not of its batch", "local threshold calibrated to a mean of K"),
    ),
    "dtop": Provenance(
        "zbwxp/Dynamic-Token-Pruning",
        "2baefff",
        "BSD-2-Clause",
        readout="positions that exit keep the logits of the head that let them go",
        adapted=(
            "the common head reads the rest, its log-probabilities beside those of exits",
            "mask losses on patches instead of pixels",
            "both phases within the common budget",
            "threshold calibrated to a mean of K",
        ),
    ),
    "cropr": Provenance(
        "benbergner/cropr",
        "2f8b624",
        NO_LICENCE,
        path="learned queries, auxiliary heads in training, last-layer fusion",
        readout="pruned patches re-join before the last block, in their places",
        adapted=("three pruning blocks instead of one behind every block",),
        adapted_dense=(
            "the most frequent class of a patch as its target",
            "in detection the class of the smallest box around it (the public code has no detection)",
        ),
    ),
    "svit": Provenance(
        "uzh-rpg/svit",
        "d2472c1",
        "Apache-2.0",
        readout="skipped tokens are copied through",
        adapted=(
            "ViTDet trunk: windows group the tokens that gates let through",
            "at least one token goes through",
            "threshold calibrated to a mean of K in the last block",
        ),
    ),
}
"""By method. A method that is this project's or the paper's own has no entry."""
