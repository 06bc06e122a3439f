import shutil
from pathlib import Path

import pytest

from tap.config import load_params, load_scale
from tap.config.load import read_yaml
from tap.config.options import OPTIONS
from tap.errors import UserError


@pytest.fixture
def project(tmp_path):
    """A folder with this project's settings, free to edit."""
    shutil.copytree("workflow/scales", tmp_path / "workflow" / "scales")
    (tmp_path / "params.yaml").write_text("scale: desk\n")
    return tmp_path


def write_params(project, text):
    (project / "params.yaml").write_text(text)


@pytest.mark.parametrize("scale", ["smoke", "desk", "paper"])
def test_every_scale_file_is_valid(scale):
    config = load_scale(scale)
    assert config.scale == scale
    assert {"cls", "seg"} <= set(config.tasks)
    for settings in config.tasks.values():
        assert settings.methods[0] == "dense"
        assert {"random", "attn_topk", "static", "tap"} <= set(settings.methods)


def test_params_names_the_scale_and_the_argument_wins(project):
    write_params(project, "scale: smoke\n")
    assert load_scale(root=project).scale == "smoke"
    assert load_scale("paper", root=project).scale == "paper"


def test_overrides_by_dotted_name_and_by_section_reach_their_scale_only(project):
    plain = {scale: load_scale(scale, root=project) for scale in ("desk", "smoke")}
    write_params(
        project,
        "overrides:\n  desk:\n    main_rate: 0.7\n    tasks.cls.seeds: [5, 6]\n"
        "    tasks:\n      cls:\n        dense:\n          length: 3\n",
    )
    changed = load_scale("desk", root=project)
    assert changed.main_rate == 0.7
    assert changed.tasks["cls"].seeds == (5, 6)
    assert changed.tasks["cls"].dense == plain["desk"].tasks["cls"].dense.model_copy(update={"length": 3.0})
    assert changed.tasks["seg"] == plain["desk"].tasks["seg"]
    assert load_scale("smoke", root=project) == plain["smoke"]


def test_an_override_of_a_section_that_an_alias_repeats_reaches_one_of_them(project):
    smoke = load_scale("smoke", {"tasks.cls.dense.length": 77}, root=project).tasks["cls"]
    assert smoke.dense.length == 77
    assert smoke.method.length != 77


def test_given_overrides_win_over_params(project):
    write_params(project, "overrides: {desk: {main_rate: 0.7}}\n")
    assert load_scale("desk", {"main_rate": 0.4}, project).main_rate == 0.4


def test_tasks_are_chosen_in_params(project):
    write_params(project, "scale: desk\ntasks: [seg]\n")
    assert list(load_scale(root=project).tasks) == ["seg"]
    file = project / "workflow" / "scales" / "desk.yaml"
    text = file.read_text()
    file.write_text(text[: text.index("\n  det:\n")] + "\n")
    write_params(project, "scale: desk\ntasks: [det]\n")
    with pytest.raises(UserError, match=r"params\.yaml: tasks: det is not in workflow/scales/desk\.yaml"):
        load_scale(root=project)


def test_one_e_minus_four_is_a_number(project):
    assert load_scale("desk", {"tasks.cls.dense.optimizer.lr": "1e-4"}, project).tasks["cls"].dense.optimizer.lr == 1e-4


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "tasks.cls.dens.length: 3",
            r"tasks\.cls\.dens: unknown key; did you mean 'dense'\? allowed here: data, model",
        ),
        ("kep_rates: [0.5]", r"kep_rates: unknown key; did you mean 'keep_rates'\?"),
        ("tasks.cls.dense.optimizer.lr: fast", r"tasks\.cls\.dense\.optimizer\.lr: must be a valid number.*'fast'"),
        ("tasks.cls.dense.length: -3", r"tasks\.cls\.dense\.length: must be greater than 0, got -3"),
        ("tasks.cls.dense.optimizer.lr: .inf", r"optimizer\.lr: must be a finite number"),
        ("tasks.cls.dense.unit: days", r"tasks\.cls\.dense\.unit: must be 'epochs' or 'steps', got 'days'"),
        (
            "tasks.seg.dense.augment.scale_range: [2.0, 0.5]",
            r"augment\.scale_range: .*the smaller one first.*2\.0, 0\.5",
        ),
        ("tasks.det.dense.augment.scale_range: [0, 1]", r"augment\.scale_range: .*above 0"),
        ("tasks.seg.data.std: [0.2, 0, 0.2]", r"tasks\.seg\.data: std must be above 0 in every channel"),
        ("tasks.det.dense.schedule.milestones: [9, 2]", r"dense\.schedule: milestones must be increasing"),
        ("tasks.det.dense.schedule.milestones: [90000]", r"schedule\.milestones \[90000.*\] must name steps inside a"),
        (
            "tasks.det.dense.schedule: {milestones: [2.6, 3.4], warmup: 0}",
            r"det\.dense: schedule\.milestones \[2\.6, 3\.4\] must name",
        ),
        ("tasks.det.dense.schedule.milestones: []", r"det\.dense: schedule\.milestones \[\] must name steps inside"),
        ("tasks.det.dense.schedule.warmup: 90000", r"det\.dense: schedule\.warmup 90000 fills the whole training"),
        ("tasks.det.model.detector.proposals: [0, 5]", r"detector\.proposals: .*above 0, got \[0, 5\]"),
        ("tasks.cls.seeds: 3", r"tasks\.cls\.seeds: must be a list, got 3"),
        ("tasks.cls.seeds: []", r"tasks\.cls\.seeds: needs at least 1 value, got \[\]"),
        ("tasks.cls.seeds: [1, 1]", r"tasks\.cls: seeds names a value twice"),
        ("tasks.cls.model.heads: yes", r"tasks\.cls\.model: heads is true, which is no value for it"),
        ("tasks.cls.model.image_size: 33", r"tasks\.cls\.model: image_size 33 is not a multiple of patch_size 8"),
        ("tasks.cls.model.heads: 5", r"tasks\.cls\.model: width 64 is not a multiple of heads 5"),
        ("tasks.cls.model.read_blocks: [13]", r"tasks\.cls\.model: read_blocks names block 13 of a model with 12"),
        ("tasks.cls.model.window: 7", r"tasks\.cls\.model: class_token must be false with windows"),
        ("tasks.cls.model.rel_pos: true", r"tasks\.cls\.model: class_token must be false with windows"),
        ("tasks.cls.model.rel_pos: 1.5", r"tasks\.cls\.model\.rel_pos: must be"),
        ("tasks.cls.model.position_grid: 14", r"tasks\.cls\.model: position_grid is for a ViTDet trunk"),
        (
            "tasks.cls.model.global_blocks: [3]",
            r"tasks\.cls\.model: global_blocks and pad_windows are for a model with",
        ),
        (
            "tasks.cls.model: {window: 7, class_token: false, global_blocks: [3, 6, 12]}",
            r"tasks\.cls: controller\.layers names block 9, which attends within windows",
        ),
        (
            "tasks.cls.model: {window: 7, class_token: false, global_blocks: [3, 13]}",
            r"tasks\.cls\.model: global_blocks names block 13 of a model with 12",
        ),
        ("tasks.cls.data.mean: [0.1, 0.2]", r"tasks\.cls\.data: mean has 2 channels and std has 3"),
        ("tasks.cls.model.channels: 1", r"tasks\.cls: data\.mean has 3 values for model\.channels 1"),
        ("tasks.cls.methods: [dense, evitt]", r"'evitt' is not a method of this task; known: dense, random, .*evit, "),
        ("joint: null", r"joint: is missing, but tasks\.cls\.methods lists 'tap_f', which is trained by it"),
        ("joint.seeds: [7]", r"joint\.seeds: has none of tasks\.cls\.seeds; name one of them, or null for all"),
        ("joint.train.schedule.warmup: 999", r"joint\.train: schedule\.warmup 999 fills the whole training of 60"),
        ("tasks.det.options.tap_f.rank: 4", r"tasks\.det\.options\.tap_f: is not that of 'cls', with which it"),
        ("tasks.seg.options.dtop.heads: 6", r"tasks\.seg: options\.dtop: 32 channels .* not a multiple of heads 6"),
        ("tasks.cls.options.cropr.layers: [3, 13]", r"tasks\.cls: options\.cropr: layers names block 13 of a model"),
        ("tasks.cls.methods: [dense, algm]", r"'algm' is not a method of this task"),
        ("tasks.cls.methods: [tap]", r"tasks\.cls: methods must include 'dense'"),
        ("tasks.cls.start_from: scratch", r"tasks\.cls\.start_from: must be 'pretrained' or 'dense', got 'scratch'"),
        ("tasks.cls.pretrain.share: null", r"tasks\.cls\.pretrain: give `weights` .*, `train` .* or `share`"),
        ("tasks.cls.data: 3", r"tasks\.cls\.data: must be a section with further names, got 3"),
        ("tasks.cls.dense.length.x: 3", r"'tasks\.cls\.dense\.length' is a single value, not a section"),
        ("tasks.foo.seeds: [1]", r"tasks\.foo: must be 'cls', 'seg' or 'det', got 'foo'$"),
        ("main_rate: 0", r"main_rate: must be greater than 0, got 0"),
        ("main_rate: 1.5", r"main_rate: must be less than or equal to 1, got 1\.5"),
        ("keep_rates: [0.333]", r"keep_rates\.0: must have at most two decimals"),
        ("controller.layers: [3, 6, 13]", r"controller\.layers names block 13 of a model with 12 blocks"),
        ("controller.layers: [6, 3, 9]", r"controller: layers must be increasing block numbers"),
        ("static_split: [50, 40]", r"static_split must hold 3 percentages that sum to 100"),
        ("tasks.cls.dense: {1: 2}", r"tasks\.cls\.dense\.1: a name was expected, not 1"),
    ],
)
def test_a_wrong_override_is_named_with_its_file_and_what_is_allowed(project, override, message):
    write_params(project, f"overrides:\n  desk:\n    {override}\n")
    with pytest.raises(UserError, match=rf"^params\.yaml: (overrides\.desk\.)?.*{message}"):
        load_scale("desk", root=project)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scale: tiny\n", r"params\.yaml: scale: must be 'smoke', 'desk' or 'paper', got 'tiny'"),
        ("sclae: desk\n", r"params\.yaml: sclae: unknown key; did you mean 'scale'\? allowed here: scale, tasks, over"),
        ("overrides: {dsk: {}}\n", r"params\.yaml: overrides\.dsk: must be 'smoke', 'desk' or 'paper'"),
        ("overrides: {desk: 3}\n", r"params\.yaml: overrides\.desk: must be a section"),
        ("tasks: [cls, foo]\n", r"params\.yaml: tasks\.1: must be 'cls', 'seg' or 'det', got 'foo'"),
        ("scale: [desk\n", r"params\.yaml: is not valid YAML \(line 2\)"),
        ("scale: desk\nscale: smoke\n", r"params\.yaml: is not valid YAML \(line 2\): key 'scale' stands twice"),
        ("- desk\n", r"params\.yaml: must hold 'key: value' lines, not a list"),
    ],
)
def test_a_wrong_params_file_is_named(project, text, message):
    write_params(project, text)
    with pytest.raises(UserError, match=message):
        load_params(project)


def test_tasks_that_are_left_out_stay_behind_those_that_are_made(project):
    write_params(project, "tasks: [det]\n")
    cfg = load_scale("desk", root=project)
    assert (list(cfg.tasks), sorted(cfg.all_tasks)) == (["det"], ["cls", "det", "seg"])
    assert sorted(cfg.model_copy(update={"main_rate": 0.3}).all_tasks) == ["cls", "det", "seg"]


@pytest.mark.parametrize(
    ("pretrain", "message"),
    [
        ("{share: det}", "pretrain.share: 'det' is no other task that pre-trains a backbone here"),
        ("{share: seg, weights: a.pth}", "`share` takes another task's backbone, so neither"),
        ("{}", "give `weights` .a file., `train` .a schedule. or `share`"),
    ],
)
def test_a_shared_backbone_must_be_one(project, pretrain, message):
    file = project / "workflow" / "scales" / "desk.yaml"
    before, _, after = file.read_text().rpartition("pretrain: {share: seg}")
    file.write_text(f"{before}pretrain: {pretrain}{after}")
    with pytest.raises(UserError, match=message):
        load_scale("desk", root=project)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"tasks.cls.model.patch_size": 4},
            r"pretrain\.share: 'seg' has model.patch_size 8, not 4, so no backbone",
        ),
        ({"tasks.seg.pretrain.mix.seg.batch_size": 4}, r"seg\.pretrain\.mix: 'seg' is no other task of this scale"),
        ({"tasks.seg.pretrain.train.unit": "epochs"}, "`mix` needs `train`, in steps"),
        ({"tasks.det.pretrain.trained_on": "det"}, r"trained_on: 'det' is no other task with a start of its own"),
        ({"tasks.det.pretrain.trained_on": "cls", "tasks.cls.start_from": "pretrained"}, "'cls' is no other task with"),
        (
            {"tasks.det.pretrain.trained_on": "cls", "tasks.det.seeds": [0, 7]},
            r"trained_on: 'cls' is not trained with seed 7; give both the same seeds",
        ),
        (
            {"tasks.det.pretrain.trained_on": "cls", "tasks.cls.pretrain.trained_on": "seg"},
            "'cls' begins with another task's backbone itself",
        ),
        (
            {
                "tasks.cls.pretrain.share": None,
                "tasks.cls.pretrain.weights": "a.pth",
                "tasks.cls.pretrain.trained_on": "seg",
            },
            r"cls\.pretrain: `trained_on` begins with a backbone that is trained here",
        ),
        ({"tasks.seg.pretrain.mix.cls.batch_size": 0}, r"mix\.cls\.batch_size: must be greater than or equal to 1"),
    ],
)
def test_one_backbone_for_several_tasks_must_fit_all(overrides, message):
    with pytest.raises(UserError, match=message):
        load_scale("desk", overrides)


def test_a_joint_training_of_one_task_is_refused():
    plain = ["dense", "tap"]
    with pytest.raises(UserError, match=r"tasks\.det\.methods: 'tap_f' is trained for several tasks together; list it"):
        load_scale("desk", {"tasks.cls.methods": plain, "tasks.seg.methods": plain})


def test_a_fault_of_the_scale_file_names_that_file(project):
    file = project / "workflow" / "scales" / "desk.yaml"
    file.write_text(file.read_text().replace("num_classes: 10", "num_classes: ten"))
    write_params(project, "overrides: {desk: {main_rate: 0.7}}\n")
    with pytest.raises(
        UserError, match=r"^workflow/scales/desk\.yaml: tasks\.cls\.data\.num_classes: must be a valid int"
    ):
        load_scale(root=project)


def test_a_scale_file_of_another_scale_is_refused(project):
    scales = project / "workflow" / "scales"
    (scales / "smoke.yaml").write_text((scales / "desk.yaml").read_text())
    with pytest.raises(UserError, match=r"smoke\.yaml: scale: is 'desk', but the file's name says 'smoke'"):
        load_scale("smoke", root=project)


def test_a_missing_file_and_an_unknown_scale_are_named(project):
    with pytest.raises(UserError, match=r"scale: 'huge' is not one of smoke, desk, paper"):
        load_scale("huge", root=project)
    (project / "params.yaml").unlink()
    with pytest.raises(UserError, match=r"params\.yaml: cannot be read"):
        load_scale(root=project)


def test_many_faults_are_listed_up_to_a_limit(project):
    with pytest.raises(UserError) as caught:
        load_scale("desk", {f"nothing{index}": 1 for index in range(20)}, project)
    lines = str(caught.value).splitlines()
    assert len(lines) == 9
    assert lines[-1] == "... and 12 more"


def test_an_empty_file_is_an_empty_mapping(tmp_path):
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    assert read_yaml(tmp_path / "empty.yaml") == {}
    assert load_params(Path()).scale in ("smoke", "desk", "paper")


def test_the_paper_scale_names_every_option_of_its_methods():
    """Each value stands there with its origin, so that none is a default that nobody sees."""
    paper = load_scale("paper")
    for task in paper.tasks.values():
        for method in set(task.methods) & set(OPTIONS):
            options = getattr(task.options, method)
            assert options is not None, method
            left = {name for name, value in options if value is not None} - options.model_fields_set
            assert not left, (method, left)
