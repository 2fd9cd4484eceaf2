#!/usr/bin/env bash
# Builds the image of the reference app and runs it as it is meant to run: not root, without
# capabilities, on a read-only file system with state on a volume, against a real Apache Kafka.
# It must be small, get healthy, stop in order while flights come, and go on from its volume;
# then what it wrote is verified.
# Exits 2, naming it, when something is missing that it needs: a Docker engine above all.
# usage: [BUILD_IMAGE=...] [BASE_IMAGE=...] [RECORDS=4000] [RATE=200] scripts/image-check.sh
#
# Where no engine answers and this is root, it starts one of its own, with its own socket and
# data, and ends it; Debian has one in the package docker.io. --iptables=false --bridge=none
# let it run where the network may not be changed: builds and containers use the host's. Its
# storage driver is overlay2, or vfs (slow, but it works everywhere) where that does not start.
#
# Base images that are not given are pulled. Where no registry answers, both are made of this
# machine: its Go toolchain to build with, and its certificates and time zones to build upon.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
LIMIT=30000000 # bytes, as docker image inspect tells
records=${RECORDS:-4000} rate=${RATE:-200}

say() { echo "image-check: $*"; }
missing() {
	echo "image-check: $1" >&2
	exit 2
}
fail() {
	echo "image-check: $1" >&2
	exit 1
}

command -v go >/dev/null || missing "go is missing: install Go 1.26 and put it into the PATH"
command -v java >/dev/null || missing "java is missing: install a JDK 17 or newer and put it into the PATH; Kafka needs it"
command -v mvn >/dev/null || missing "mvn is missing: install Apache Maven and put it into the PATH; it fetches Kafka"

# A client that can build with BuildKit: since version 23 it needs a plugin, which is not always there.
docker=
for c in $(type -ap docker); do
	version=$("$c" --version | sed -nE 's/.* version ([0-9]+).*/\1/p')
	if [ "${version:-99}" -lt 23 ] || "$c" buildx version >/dev/null 2>&1; then
		docker=$c
		break
	fi
done
if [ -z "$docker" ]; then
	[ -z "$(type -ap docker)" ] || missing "$(type -p docker) cannot build: its plugin buildx is missing"
	missing "docker is missing: install a Docker engine with its client (Debian: apt-get install docker.io)"
fi
export DOCKER_BUILDKIT=1

dir=$(mktemp -d)
engine='' broker='' name=headrace-image-check-$$ image=headrace-image-check:$$ made=()
finish() {
	code=$?
	if [ "$code" != 0 ]; then
		tail -n 20 "$dir"/*.log >&2 2>/dev/null || true
		if [ -n "$broker" ]; then timeout 20 "$docker" logs --tail 20 "$name" >&2 || true; fi
	fi
	timeout 60 "$docker" rm -f -v "$name" "$name-feed" >/dev/null 2>&1 || true
	timeout 60 "$docker" volume rm "$name" >/dev/null 2>&1 || true
	if [ -n "$broker" ]; then kill "$broker" 2>/dev/null || true; fi # in order, so that it removes its data
	# The cache of the build stays with an engine that was there before.
	timeout 60 "$docker" image rm -f "$image" "${made[@]}" >/dev/null 2>&1 || true
	if [ -n "$engine" ]; then kill "$engine" 2>/dev/null || true; fi
	wait 2>/dev/null || true
	if [ -n "$engine" ]; then # it leaves some mounts
		awk -v dir="$dir/" 'index($2, dir) == 1 { print $2 }' /proc/mounts | sort -r | xargs -r umount || true
	fi
	rm -rf "$dir"
	exit "$code"
}
trap finish EXIT

# await SECONDS WHAT COMMAND...
await() {
	local end=$((SECONDS + $1)) what=$2
	shift 2
	until "$@"; do
		if [ "$SECONDS" -ge "$end" ]; then fail "waited in vain for $what"; fi
		sleep 0.2
	done
}

# start_engine DRIVER: an engine of our own with that storage driver, or failure.
start_engine() {
	dockerd --iptables=false --ip6tables=false --bridge=none --storage-driver="$1" \
		--data-root "$dir/engine" --exec-root "$dir/exec" --pidfile "$dir/engine.pid" --host "$DOCKER_HOST" >"$dir/engine.log" 2>&1 &
	engine=$!
	local end=$((SECONDS + 30))
	until "$docker" info >/dev/null 2>&1; do
		if ! kill -0 "$engine" 2>/dev/null || [ "$SECONDS" -ge "$end" ]; then
			kill "$engine" 2>/dev/null || true
			wait "$engine" 2>/dev/null || true
			engine=
			return 1
		fi
		sleep 0.2
	done
}

if timeout 20 "$docker" info >/dev/null 2>&1; then
	say "the Docker engine that runs here: $("$docker" version -f '{{.Server.Version}}')"
else
	command -v dockerd >/dev/null || missing "no Docker engine answers, and dockerd to start one is missing (Debian: apt-get install docker.io)"
	[ "$(id -u)" = 0 ] || missing "no Docker engine answers, and only root can start one: start it, or run this as root"
	export DOCKER_HOST=unix://$dir/docker.sock
	start_engine overlay2 || start_engine vfs || {
		tail -n 5 "$dir/engine.log" >&2
		missing "no Docker engine answers, and dockerd does not start here; its log is above"
	}
	say "a Docker engine of its own: $("$docker" version -f '{{.Server.Version}}'), $("$docker" info -f '{{.Driver}}')"
fi

# default_of ARGUMENT: its value in the Dockerfile.
default_of() { sed -n "s/^ARG $1=//p" Dockerfile | head -n 1; }
pulled() { timeout 120 "$docker" pull -q "$1" >"$dir/pull.log" 2>&1; }

# local_build NAME: this machine's Go, and a shell to run it.
local_build() {
	local root=$dir/build
	mkdir -p "$root"/{bin,tmp,etc/ssl/certs,usr/local/go}
	tar -C "$(go env GOROOT)" --exclude=./test --exclude=./doc --exclude=./api --exclude=./misc -c . | tar -C "$root/usr/local/go" -x
	cp -L /bin/sh "$root/bin/sh"
	# Its libraries; a static shell has none.
	{ ldd /bin/sh 2>/dev/null || true; } | grep -oE '/[^ ]+' | while read -r lib; do
		mkdir -p "$root$(dirname "$lib")"
		cp -L "$lib" "$root$lib"
	done
	cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
	tar -C "$root" -c . | "$docker" import -c 'ENV PATH=/usr/local/go/bin:/bin GOPATH=/go GOTOOLCHAIN=local' - "$1" >/dev/null
	rm -rf "$root"
}

# local_base NAME: what the usual base has, of this machine.
local_base() {
	local root=$dir/base
	mkdir -p "$root"/{tmp,etc/ssl/certs,usr/share}
	chmod 1777 "$root/tmp"
	cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
	if [ -d /usr/share/zoneinfo ]; then cp -a /usr/share/zoneinfo "$root/usr/share/"; fi
	echo 'nonroot:x:65532:65532:nonroot:/:/sbin/nologin' >"$root/etc/passwd"
	echo 'nonroot:x:65532:' >"$root/etc/group"
	tar -C "$root" -c . | "$docker" import - "$1" >/dev/null
	rm -rf "$root"
}

# base_image ARGUMENT FALLBACK: sets it, unless it is given.
base_image() {
	if [ -n "${!1:-}" ]; then
		say "$1 as given: ${!1}"
		return
	fi
	declare -g "$1=$(default_of "$1")"
	if pulled "${!1}"; then
		say "$1 pulled: ${!1}"
		return
	fi
	say "$1: ${!1} cannot be pulled, so it is made of this machine"
	declare -g "$1=headrace-image-check-$2:$$"
	made+=("${!1}")
	"local_$2" "${!1}"
}
base_image BUILD_IMAGE build
base_image BASE_IMAGE base

args=()
for a in GOPROXY GOSUMDB GOFLAGS GOMAXPROCS; do
	v=${!a:-}
	case $a in GOPROXY | GOSUMDB) v=${v:-$(go env $a)} ;; esac
	if [ -n "$v" ]; then args+=(--build-arg "$a=$v"); fi
done
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
"$docker" build --network host --progress plain -t "$image" "${args[@]}" \
	--build-arg BUILD_IMAGE="$BUILD_IMAGE" --build-arg BASE_IMAGE="$BASE_IMAGE" --build-arg VERSION=image-check --build-arg REVISION="$revision" \
	. >"$dir/build.log" 2>&1 || fail "the image cannot be built"

inspect() { "$docker" image inspect -f "$1" "$image"; }
expect() { # expect WHAT GOT WANTED
	[ "$2" = "$3" ] || fail "$1 of the image is $2, not $3"
}
size=$(inspect '{{.Size}}')
[ "$size" -le "$LIMIT" ] || fail "the image has $size bytes, more than $LIMIT"
expect "user" "$(inspect '{{.Config.User}}')" 65532:65532
expect "entrypoint" "$(inspect '{{json .Config.Entrypoint}}')" '["/app"]'
expect "command" "$(inspect '{{json .Config.Cmd}}')" '["run"]'
expect "health check" "$(inspect '{{json .Config.Healthcheck.Test}}')" '["CMD","/app","healthcheck"]'
expect "volume" "$(inspect '{{json .Config.Volumes}}')" '{"/data":{}}'
expect "label version" "$(inspect '{{index .Config.Labels "org.opencontainers.image.version"}}')" image-check
expect "label revision" "$(inspect '{{index .Config.Labels "org.opencontainers.image.revision"}}')" "$revision"
for l in title description source licenses; do
	[ -n "$(inspect "{{index .Config.Labels \"org.opencontainers.image.$l\"}}")" ] || fail "the image has no label $l"
done
say "built: $size bytes, user 65532, health check, labels"

go build -o "$dir/sample-app" ./cmd/sample-app
"$dir/sample-app" broker -port 0 >"$dir/address" 2>"$dir/kafka.log" &
broker=$!
await 180 "Kafka" test -s "$dir/address"
brokers=$(cat "$dir/address")
port=$((20000 + RANDOM % 10000))
while (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
say "Kafka on $brokers, probes on 127.0.0.1:$port"

locked=(--read-only --cap-drop ALL --security-opt no-new-privileges --network host --user 65532 -e HEADRACE_BROKERS="$brokers")
"$docker" volume create "$name" >/dev/null
"$docker" run -d --name "$name" "${locked[@]}" -v "$name:/data" -e HEADRACE_HTTP_ADDR="127.0.0.1:$port" \
	-e HEADRACE_SESSION_TIMEOUT=6s -e HEADRACE_TRANSACTION_TIMEOUT=10s "$image" >/dev/null
"$docker" run -d --name "$name-feed" "${locked[@]}" "$image" feed --records "$records" --rate "$rate" >/dev/null

state() { "$docker" inspect -f "{{.State.$1}}" "$2"; }
healthy() {
	[ "$(state Running "$name")" = true ] || fail "the app has ended: exit code $(state ExitCode "$name")"
	[ "$(state Health.Status "$name")" = healthy ]
}
# http PATH: whether the app answers it with 200. curl may be missing.
http() {
	local status=''
	{ exec 3<>"/dev/tcp/127.0.0.1/$port" && printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&3 && read -r status <&3; } 2>/dev/null || true
	exec 3>&- || true
	[[ $status == *' 200 '* ]]
}
has_written() { [ "$("$docker" logs "$name-feed" 2>&1 | grep -c '^fed ')" -gt 0 ]; }
# stop_in_order: SIGTERM as docker stop sends it, and what comes of it.
stop_in_order() {
	local from=$EPOCHREALTIME took code
	"$docker" stop -t 15 "$name" >/dev/null
	took=$(((${EPOCHREALTIME/./} - ${from/./}) / 1000))
	code=$(state ExitCode "$name")
	[ "$code" = 0 ] || fail "after SIGTERM the app ended with exit code $code, not 0"
	[ "$took" -le 10000 ] || fail "the app took $took ms to stop, more than 10 s"
	say "stopped in $took ms with exit code 0: $("$docker" logs "$name" 2>&1 | grep '"msg":"stopped"' | tail -n 1)"
}
await 60 "the container to be healthy" healthy
await 60 "/readyz to be 200" http /readyz
http /metrics || fail "/metrics is not 200"
await 60 "the feed to be under way" has_written
say "healthy and ready, with flights coming in"
[ "$(state Running "$name-feed")" = true ] || fail "the feed was over before the app was stopped; give a smaller RATE"
stop_in_order
"$docker" start "$name" >/dev/null # with the same volume
[ "$("$docker" wait "$name-feed")" = 0 ] || fail "the feed failed: $("$docker" logs --tail 5 "$name-feed" 2>&1)"
await 60 "the container to be healthy again" healthy
"$docker" run --rm "${locked[@]}" "$image" verify --records "$records"
stop_in_order
say "done: built, checked and run"
