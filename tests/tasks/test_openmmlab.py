"""The dense tasks inside a process where an OpenMMLab Runner has made another package's names the default."""

import pytest
from mmengine.registry import DefaultScope

from tap.tasks.registry import get_task


@pytest.mark.parametrize(("name", "scope"), [("det", "mmseg"), ("seg", "mmdet"), ("det", "mmengine")])
def test_models_and_data_do_not_depend_on_the_default_scope(name, scope, seg_spec, det_spec):
    spec = det_spec() if name == "det" else seg_spec(model={"read_blocks": (3, 6, 9, 12), "head_channels": 8})
    task = get_task(spec)

    def built():
        """Classes of all that the package's names were looked up for."""
        model, splits = task.build_model(spec), task.datasets(spec)
        steps = [step for split in (splits.train, splits.validation) for step in split.pipeline.transforms]
        return [type(part) for part in (*model.modules(), *steps)]

    alone = built()
    with DefaultScope.overwrite_default_scope(scope):
        assert built() == alone
