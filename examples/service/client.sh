#!/bin/sh
# One episode with curl: examples/service/client.sh [http://127.0.0.1:8000] [KEY]; a token in TOKEN, if there are any.
set -eu
service=${1:-http://127.0.0.1:8000}
key=${2:-shell-$$}

post() { # PATH BODY: --retry asks again while the service restarts; every request may be repeated
    curl --silent --show-error --fail-with-body --retry 10 --retry-connrefused \
        --header "Content-Type: application/json" --header "Idempotency-Key: $key" \
        ${TOKEN:+--header "Authorization: Bearer $TOKEN"} --data "$2" "$service$1"
}
value() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"; } # of a name in the answer

begun=$(post /episodes '{}')
episode=$(echo "$begun" | value episode)
steps=$(echo "$begun" | value steps)
state=3
step=0
while [ "$step" -lt "$steps" ]; do
    action=$(post "/episodes/$episode/decisions" "{\"step\": $step, \"state\": $state}" | value action)
    # Here your own process does what was decided, and measures. This one improves a little, at no cost.
    if [ "$action" -gt 0 ] && [ "$state" -gt 0 ]; then state=$((state - 1)); fi
    post "/episodes/$episode/outcomes" \
        "{\"step\": $step, \"reward\": 0.5, \"constraints\": [0], \"thresholds\": [1]}" >/dev/null
    step=$((step + 1))
done
post "/episodes/$episode/end" "{\"state\": $state}"
echo
