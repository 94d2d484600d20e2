# Bare `make` lists the verbs.
.DEFAULT_GOAL := help
SHELL := /bin/bash
TARGET := $(or $(CARGO_TARGET_DIR),target)
QUAFF := $(TARGET)/release/quaff
COMMIT = QUAFF_COMMIT=$$(git rev-parse --short=12 HEAD 2>/dev/null)

help: ## this list
	@echo "quaff: captures every packet on a Linux machine, and proves that it did"; echo
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | while IFS=$$'\t' read -r verb words; do printf '  make %-9s %s\n' "$$verb" "$$words"; done

demo: deps-demo ## measure the disk, then capture beside tcpdump and dumpcap in a lab (root, 3 minutes)
	$(COMMIT) cargo build --profile demo -p quaff-cli
	$(TARGET)/demo/quaff lab demo

test: deps-test ## all tests, with real packets in network namespaces (root; TEST=tidy for one module)
	scripts/test $(TEST)

interop: deps-interop ## one folder of Parquet segments read by pyarrow, DuckDB, chDB (ClickHouse), Polars and PySpark, each row compared
	cargo test -p quaff-cli --test flows -- --nocapture --ignored flows_parquet::

bench: deps-bench build ## the promises of quaff, measured beside other programs (root, 45 minutes; BENCH=--long for 20 GB)
	$(QUAFF) bench promises $(BENCH)

soak: deps-test ## the long runs: 200 random kill -9 and 20 of compressed files, 50 random losses, 20 failing disks, 100 starts of four lanes and 100 interrupted ones, 3 M packets in two and four lanes, 3 M frames each way through a tap, a stall of 30 s, a day of ten million hostile connections, searches for known rates, short service profiles (root, 45 minutes)
	QUAFF_KILLS=200 cargo test -p quaff-cli --test capture -- --nocapture capture_rotation::keep_files capture_rotation::kill_9
	QUAFF_KILLS=20 cargo test -p quaff-cli --test capture -- --nocapture compress::kill_9
	QUAFF_RUNS=50 cargo test -p quaff-cli --test capture -- --nocapture random_loss::
	QUAFF_RUNS=20 cargo test -p quaff-cli --test output -- --nocapture write_faults::
	QUAFF_RUNS=100 cargo test -p quaff-cli --test capture -- --nocapture capture_fanout::all_starts capture_fanout::a_signal_during
	QUAFF_LANES_PACKETS=3000000 cargo test -p quaff-cli --test capture -- --nocapture capture_fanout::lanes_share
	QUAFF_TAP_FRAMES=3000000 QUAFF_TAP_PPS=500000 QUAFF_TAP_STOP=5 cargo test -p quaff-cli --test output -- --nocapture tap_load::
	QUAFF_STALL=30 cargo test -p quaff-cli --test output -- --nocapture split_stall::
	QUAFF_WAVE=420000 cargo test -p quaff-stream --test streams -- --nocapture adversary::
	cargo test -p quaff-bench --lib -- --nocapture --ignored service::through

fuzz: ## a minute of fuzzing for each reader
	cd fuzz && for target in decode salvage unpack probe probe_trial arp split hierarchy filter cut rewrite client fingerprint tcpprep sizes survey flow_application flow_ipfix flow_routes flow_spool flow_template stream stream_grep defragment track loss http dns_message tls_hello script; do ./run $$target $(or $(FUZZ_SECONDS),60) || exit; done
	cd fuzz && for kind in erspan gre vxlan geneve ipip mpls gtp l2tp tzsp outer; do ./run tunnel_$$kind $(or $(FUZZ_SECONDS),60) || exit; done

lint: ## what CI checks first
	cargo fmt --check
	cargo clippy --workspace --all-targets -- -D warnings

deny: ## licences, duplicates and advisories of what the project depends on
	scripts/deny

build: deps-build
	$(COMMIT) cargo build --release -p quaff-cli

install: build deps-install ## quaff for the group quaff, manual pages, completions, into /usr/local (PREFIX=…, GROUP=…)
	QUAFF=$(QUAFF) scripts/install # PREFIX, DESTDIR, GROUP and CAPABILITIES reach it in the environment

clean: ## remove what was built
	cargo clean

deps-build: ; @scripts/deps build
deps-install: ; @scripts/deps install
deps-demo: ; @scripts/deps build demo
deps-test: ; @scripts/deps build test && { scripts/readers test >/dev/null || echo 'without readers of Parquet, the tests that need them are skipped' >&2; }
deps-interop: ; @scripts/deps build test interop && scripts/readers interop >/dev/null
deps-bench: ; @scripts/deps build demo bench

.PHONY: help demo test interop bench soak fuzz lint deny build install clean deps-build deps-install deps-demo deps-test deps-interop deps-bench
