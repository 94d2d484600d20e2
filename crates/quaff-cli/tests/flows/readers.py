#!/usr/bin/env python3
"""Reads a folder of Parquet segments with another program, and prints what it sees.

usage: readers.py ENGINE FOLDER

One line of JSON for each row, an object without the columns of the folders; times are microseconds since 1970. The last
line has the engine's own sums of all numbers, modulo 2**64, since most engines add in 64 bits: {"sums": {...},
"rows": N}, and with pyarrow the types of the columns.
"""

import json
import sys

TIMES = ("flowStart", "flowEnd")
TEXTS = ("sourceAddress", "destinationAddress", "applicationName", "serverName", "applicationProtocols", "probe")


def pyarrow(folder):
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    table = ds.dataset(folder, format="parquet", partitioning="hive").to_table().drop_columns(["dt", "hour"])
    types = {field.name: f"{field.type}{'' if field.nullable else ' not null'}" for field in table.schema}
    for name in TIMES:
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, table[name].cast(pa.int64()))
    sums = {name: pc.sum(table[name]).as_py() for name in table.column_names if name not in TEXTS}
    return table.to_pylist(), {"sums": sums, "rows": table.num_rows, "types": types}


def by_sql(names, run, of_time, table):
    """For engines that speak SQL: `run` gives lists of tuples, `of_time` the expression of a time in microseconds."""
    quoted = {name: of_time(name) if name in TIMES else f'"{name}"' for name in names}
    rows = [dict(zip(names, row)) for row in run(f"SELECT {', '.join(quoted.values())} FROM {table}")]
    numbers = [name for name in names if name not in TEXTS]
    sums = run(f"SELECT count(*), {', '.join(f'sum({quoted[name]})' for name in numbers)} FROM {table}")[0]
    return rows, {"sums": dict(zip(numbers, sums[1:])), "rows": sums[0]}


def number(value):
    return None if value is None else int(value)


# Groupings of `quaff flows report --by`.
GROUPINGS = [
    "source+port",
    "port+destination+protocol",
    "source-port",
    "flags+tos",
    "vlan+inner-vlan+version",
    "end+rule+continued",
    "application+server",
    "alpn+protocol",
    "tunnel+mpls+interface",
]


def none_if_zero(words, none):
    return lambda number: f"{words} {number}" if number else none


def letters(flags):
    found = "".join(letter for at, letter in enumerate("CEUAPRSF") if flags & (0x80 >> at))
    return found or "no flags"


PROTOCOLS = {6: "tcp", 17: "udp"}
ENDS = ["", "idle", "active", "end of flow", "forced", "lack of resources"]
RULES = ["sender", "SYN", "SYN-ACK", "ICMP", "ports", "first packet"]
# The columns of a property in SQL, and the words of their values.
PROPERTIES = {
    "source": (["sourceAddress"], str),
    "destination": (["destinationAddress"], str),
    "port": (["protocolIdentifier", "destinationTransportPort"], lambda of, port: f"{PROTOCOLS[of]} {port}"),
    "source-port": (["protocolIdentifier", "sourceTransportPort"], lambda of, port: f"{PROTOCOLS[of]} {port}"),
    "protocol": (["protocolIdentifier"], PROTOCOLS.get),
    "version": (["ipVersion"], "ipv{}".format),
    "tos": (["ipClassOfService"], "tos {}".format),
    "flags": (["tcpControlBits | reverseTcpControlBits"], letters),
    "vlan": (["vlanId"], none_if_zero("vlan", "untagged")),
    "inner-vlan": (["dot1qCustomerVlanId"], none_if_zero("inner vlan", "one tag or none")),
    "mpls": (["mplsTopLabel"], none_if_zero("mpls", "no mpls")),
    "tunnel": (["tunnelId"], none_if_zero("tunnel", "no tunnel")),
    "interface": (["ingressInterface"], "interface {}".format),
    "end": (["flowEndReason"], ENDS.__getitem__),
    "rule": (["directionRule"], RULES.__getitem__),
    "continued": (["isContinued"], lambda number: "continued" if number else "first"),
    "application": (["applicationName"], lambda name: name or "unknown"),
    "server": (["serverName"], lambda name: name or "without a name"),
    "alpn": (["applicationProtocols"], lambda name: name or "without ALPN"),
}


def grouped(run, table, properties):
    """Records, packets and bytes of TCP and UDP by several properties, named as a report names them."""
    columns = [column for name in properties for column in PROPERTIES[name][0]]
    sums = "count(*), sum(packetDeltaCount + reversePacketDeltaCount), sum(octetDeltaCount + reverseOctetDeltaCount)"
    found = {}
    for row in run(f"SELECT {', '.join(columns)}, {sums} FROM {table} WHERE protocolIdentifier IN (6, 17) GROUP BY ALL"):
        row, names = list(row), []
        for name in properties:
            of, words = PROPERTIES[name]
            names.append(words(*[row.pop(0) for _ in of]))
        found[", ".join(names)] = [int(sum) for sum in row]
    return found


def duckdb(folder):
    import duckdb

    table = f"read_parquet('{folder}/**/*.parquet', hive_partitioning = true)"
    run = lambda sql: duckdb.sql(sql).fetchall()
    names = [row[0] for row in run(f"DESCRIBE SELECT * EXCLUDE (dt, hour) FROM {table}")]
    rows, seen = by_sql(names, run, lambda name: f'epoch_us("{name}")', table)
    # Encodings and filters, as another program finds them.
    files = f"parquet_metadata('{folder}/**/*.parquet')"
    # Statistics, indexes and bloom filters hide no row.
    groups = run(f"SELECT sourceAddress, destinationTransportPort, count(*) FROM {table} GROUP BY ALL ORDER BY ALL LIMIT 40")
    where = "WHERE sourceAddress = '{}' AND destinationTransportPort = {}"
    found = [run(f"SELECT count(*) FROM {table} {where.format(*group)}")[0][0] for group in groups]
    seen["filtered"] = {"found": found, "expected": [group[2] for group in groups]}
    columns = run(f"SELECT path_in_schema, encodings, bloom_filter_offset IS NOT NULL, compression FROM {files}")
    seen["columns"] = {name: [encodings, bloom, compression] for name, encodings, bloom, compression in columns}
    seen["grouped"] = {by: grouped(run, table, by.split("+")) for by in GROUPINGS}
    return rows, seen


def chdb(folder):
    import chdb

    table = f"file('{folder}/**/*.parquet', Parquet)"

    def run(sql):
        return [row for row in map(json.loads, str(chdb.query(sql, "JSONCompactEachRow")).splitlines())]

    names = [row[0] for row in run(f"DESCRIBE TABLE {table}") if row[0] not in ("dt", "hour")]
    rows, seen = by_sql(names, run, lambda name: f'toUnixTimestamp64Micro("{name}")', table)
    seen["rows"] = int(seen["rows"])
    rows = [{name: value if name in TEXTS else number(value) for name, value in row.items()} for row in rows]
    return rows, seen


def polars(folder):
    import polars as pl

    table = pl.scan_parquet(f"{folder}/**/*.parquet", hive_partitioning=True).drop("dt", "hour").collect()
    table = table.with_columns([pl.col(name).dt.epoch("us") for name in TIMES])
    numbers = [name for name in table.columns if name not in TEXTS]
    sums = table.select([pl.col(name).cast(pl.Int64).sum() for name in numbers]).row(0)
    return table.to_dicts(), {"sums": dict(zip(numbers, sums)), "rows": table.height}


def pyspark(folder):
    from pyspark.sql import SparkSession, functions as F

    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    table = session.read.parquet(folder).drop("dt", "hour")
    for name in TIMES:
        table = table.withColumn(name, F.unix_micros(name))
    numbers = [name for name in table.columns if name not in TEXTS]
    # A sum beyond 64 bits is an error to it.
    sums = table.select([F.sum(F.col(name).cast("decimal(20,0)")) for name in numbers]).collect()[0]
    rows = [row.asDict() for row in table.collect()]
    return rows, {"sums": dict(zip(numbers, sums)), "rows": table.count()}


def main():
    engine, folder = sys.argv[1:]
    engines = {function.__name__: function for function in (pyarrow, duckdb, chdb, polars, pyspark)}
    rows, seen = engines[engine](folder)
    seen["sums"] = {name: None if value is None else int(value) % 2**64 for name, value in seen["sums"].items()}
    for row in rows:
        print(json.dumps(row))
    print(json.dumps(seen))


main()
