from tap.recertify.compare import compare


def trace(*entries):
    return {"trace": [list(entry) for entry in entries]}


def test_equal_bits_are_equal_and_counted():
    one = trace(("step 0", "loss", "a"), ("step 1", "loss", "b"), ("end", "log", "c"))
    found = compare(one, one)
    assert found.equal
    assert (found.compared, found.steps) == (3, 2)


def test_the_first_difference_is_named():
    before = trace(("step 0", "loss", "a"), ("step 1", "gradient of head", "b"), ("step 1", "model head", "c"))
    now = trace(("step 0", "loss", "a"), ("step 1", "gradient of head", "x"), ("step 1", "model head", "y"))
    assert compare(before, now).difference == "step 1: gradient of head"
    renamed = trace(("step 0", "loss", "a"), ("step 1", "gradient of top", "b"))
    assert compare(before, renamed).difference == "step 1: gradient of head before, step 1: gradient of top now"


def test_what_only_one_of_both_has_is_a_difference():
    short, long = trace(("step 0", "loss", "a")), trace(("step 0", "loss", "a"), ("step 1", "loss", "b"))
    for before, now in ((short, long), (long, short)):
        assert compare(before, now).difference == "step 1: loss: only one of both has it"


def test_nothing_a_failure_and_a_missing_interface_show_nothing():
    one = trace(("step 0", "loss", "a"))
    assert compare(trace(), trace()).difference == "nothing was computed"
    assert compare(one, {"error": "ValueError: x"}).difference == "today's code fails in the replay: ValueError: x"
    missing = compare({"missing": "tap.engine.job.train_run"}, one)
    assert (
        missing.difference == "the code that made it lacks an interface that a replay needs: tap.engine.job.train_run"
    )


def test_a_log_that_shows_more_or_less_is_no_difference_but_another_value_is():
    before = trace(("step 0", "log loss", "a"), ("step 0", "model head", "b"), ("end", "log.0 loss", "c"))
    more = trace(
        ("step 0", "log loss", "a"), ("step 0", "log kept", "k"), ("step 0", "model head", "b"),
        ("end", "log.0 loss", "c"), ("end", "log.0 kept", "k"),
    )  # fmt: skip
    assert compare(before, more).equal
    assert compare(more, before).equal
    other = trace(("step 0", "log loss", "x"), ("step 0", "model head", "b"), ("end", "log.0 loss", "c"))
    assert compare(before, other).difference == "step 0: log loss"
