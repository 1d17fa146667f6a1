#!/usr/bin/env bash
# Brings a fresh clone to a state where every command of the Makefile works. Everything it makes is under .assay/.
# Safe to run at any time; returns at once when nothing has changed since the last time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

state="${ASSAY_HOME:-$PWD/.assay}"
say() { printf '%s\n' "$*" >&2; }
fail() { say "Set-up stopped: $*"; exit 2; }

fingerprint() {
  { cat uv.lock pyproject.toml infra/jars/*.xml infra/java/* infra/setup/*.py infra/setup/*.sh 2>/dev/null
    printf '%s|%s|%s' "$PWD" "${JAVA_HOME:-}" "$(command -v java || true)"; } | cksum
}

stamp="$state/set-up"
if [ -x "$state/venv/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$(fingerprint)" ]; then exit 0; fi

mkdir -p "$state" 2>/dev/null || fail "the folder $state cannot be made; check its permissions or set ASSAY_HOME to another place."

right_python='import sys; raise SystemExit(not ((3, 11) <= sys.version_info[:2] < (3, 14)))'
python=""
for candidate in "${ASSAY_BASE_PYTHON:-}" python3.13 python3.12 python3.11 python3; do
  if [ -n "$candidate" ] && "$candidate" -c "$right_python" 2>/dev/null; then python="$candidate"; break; fi
done

uv="$(command -v uv || true)"
[ -n "$uv" ] || [ ! -x "$state/bootstrap/bin/uv" ] || uv="$state/bootstrap/bin/uv"
if [ -z "$uv" ]; then
  [ -n "$python" ] || fail "no Python from 3.11 to 3.13 was found on PATH; install one (for example python3.12 with its venv module) and try again."
  say "Set-up: fetching uv, the package installer …"
  "$python" -m venv "$state/bootstrap" || fail "$python cannot make a virtual environment; install its venv module (on Debian: apt install python3-venv)."
  "$state/bootstrap/bin/pip" install --quiet --disable-pip-version-check "uv>=0.9" || fail "uv could not be fetched from the Python package index; check the network and try again."
  uv="$state/bootstrap/bin/uv"
fi

# uv brings its own list of certificate authorities; a company's proxy is signed by one that only the machine's list has.
for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
  if [ -z "${SSL_CERT_FILE:-}" ] && [ -r "$bundle" ]; then export SSL_CERT_FILE="$bundle"; fi
done

say "Set-up: installing the locked environment (about 1.5 GB the first time) …"
# Compiled once here (25 s), not by every process that may not write beside the packages: Airflow then starts in 2 s instead of 7.
UV_PROJECT_ENVIRONMENT="$state/venv" "$uv" sync --frozen --quiet --compile-bytecode ${python:+--python "$(command -v "$python")"} \
  || fail "the locked environment could not be installed; the lines above say which package, and trying again resumes where it stopped."

"$state/venv/bin/python" -m infra.setup "$state" || exit $?
fingerprint > "$stamp"
say "Set-up: ready."
