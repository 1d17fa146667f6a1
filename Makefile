# Everything below sets itself up first: one ignored folder, .assay/, holds the environment, the jars, Java, Airflow and the lake.
.DEFAULT_GOAL := help
SHELL := /bin/bash
state := $(or $(ASSAY_HOME),$(CURDIR)/.assay)
export ASSAY_HOME := $(state)
bin := $(state)/venv/bin

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

setup: ## Install everything under .assay/ (the other targets call it; quick when nothing has changed)
	@infra/setup/bootstrap.sh

run: setup ## Run the hourly DAG on the shipped sample, or on your own files with FILES=<folder or URL prefix>
	@$(bin)/python -m spark_jobs.cli.run $(if $(FILES),--files "$(FILES)")

up: setup ## Start Airflow with its web page on 127.0.0.1 (port 8080, or ASSAY_PORT); Ctrl-C stops all of it
	@$(bin)/python -m spark_jobs.cli.up

status: setup ## Say how fresh, how large and how trusted each table is
	@$(bin)/assay status

check: setup ## Check the form of the code: ruff, mypy, import contracts
	@$(bin)/ruff check .
	@$(bin)/ruff format --check .
	@$(bin)/mypy
	@$(bin)/lint-imports --no-cache

test: check ## Run the whole test suite (at most 30 minutes on 2 cores)
	@$(bin)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

certify: setup ## Run the long proofs: many orders, many kills
	@$(bin)/python -m pytest -m certify

soak: setup ## Forty minutes of a continuous run under kills, freezes and damage (MINUTES=5, SEED=7, UNDER=up)
	@$(bin)/python -m tests.soak --minutes $(or $(MINUTES),40) --under $(or $(UNDER),stream) $(if $(SEED),--seed $(SEED))

bench: setup ## Print CPU and wall time on a seeded reference set, beside plain Spark and chdb
	@PATH="$$PATH:$(state)/bootstrap/bin" UV_PROJECT_ENVIRONMENT="$(state)/venv" uv sync --frozen --quiet --inexact --group bench
	@$(bin)/python -m tests.bench

bench-freshness: setup ## Print how fresh a continuous pipeline is and what it costs, at 25, 50 and 75 % load (2 hours; QUICK=1: 15 min)
	@$(bin)/python -m tests.bench.freshness $(if $(QUICK),--quick)

clean: ## Remove the lake, the landing folder, the reports and Airflow's state; the installed environment stays
	@rm -rf "$(state)"/{lake,landing,reports,airflow,failures.jsonl}

.PHONY: help setup run up status check test certify soak bench bench-freshness clean
