from __future__ import annotations

from limpet.store.postgres.db import PreparedStatements, Statement, bind_values

SQL = "SELECT %(a)s, 100 %% %(b)s, %(a)s"


def make() -> Statement:
    return bind_values(SQL, {"a": 1, "b": "x"}, repr)


def test_frequent_statement_is_prepared_and_then_only_named() -> None:
    prepared = PreparedStatements()
    for _ in range(5):
        assert prepared.format([make()]) == (["SELECT 1, 100 % 'x', 1"], {})
    texts, fresh = prepared.format(["BEGIN", make(), make()])
    assert texts == [
        "BEGIN",
        "PREPARE limpet_1 AS SELECT $1, 100 % $2, $3",
        "EXECUTE limpet_1(1, 'x', 1)",
        "EXECUTE limpet_1(1, 'x', 1)",
    ]
    prepared.keep(fresh)
    assert prepared.format([make()]) == (["EXECUTE limpet_1(1, 'x', 1)"], {})


def test_name_is_not_tried_again_where_nobody_knows_whether_it_was_prepared() -> None:
    prepared = PreparedStatements()
    for _ in range(5):
        prepared.format([make()])
    prepared.format([make()])  # its message failed: nothing of it is kept
    assert prepared.format([make()])[0][0].startswith("PREPARE limpet_2 AS")


def test_connection_prepares_only_so_many_statements() -> None:
    prepared = PreparedStatements()
    for number in range(250):
        statement = bind_values(f"SELECT {number}", {}, repr)
        for _ in range(5):
            prepared.format([statement])
        texts, fresh = prepared.format([statement])
        prepared.keep(fresh)
        assert texts[-1] == (f"EXECUTE limpet_{number + 1}" if number < 200 else f"SELECT {number}")


def test_statement_is_prepared_again_after_many_uses() -> None:
    prepared = PreparedStatements()
    sent: list[str] = []
    for _ in range(1010):
        texts, fresh = prepared.format([make()])
        prepared.keep(fresh)
        sent += texts
    assert [text.partition(" AS")[0] for text in sent if text.startswith(("PREPARE", "DEALLOCATE"))] == [
        "PREPARE limpet_1",
        "DEALLOCATE limpet_1",
        "PREPARE limpet_2",
    ]
