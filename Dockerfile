# The reference app as an image: one static binary, no shell, not root.
#
#   docker build -t headrace/sample-app .
#   docker run --read-only -v flights:/data -e HEADRACE_BROKERS=kafka:9092 headrace/sample-app
#
# It needs BuildKit, but no frontend from a registry. Both base images are arguments: for a mirror, for a digest in place of a
# tag, or for images made where no registry can be reached, as scripts/image-check.sh does. The final image takes nothing from its
# base but certificates and time zones; BASE_IMAGE=scratch does for brokers without TLS or with tls.ca-file.
ARG BUILD_IMAGE=golang:1.26.8-bookworm
ARG BASE_IMAGE=gcr.io/distroless/static-debian12:nonroot

FROM --platform=$BUILDPLATFORM ${BUILD_IMAGE} AS build
# Arguments without a value are not set; with one, the go command sees them.
ARG GOPROXY
ARG GOSUMDB
ARG GOFLAGS
ARG GOMAXPROCS
# Copied as /data: a volume gets owner and mode of what the image has at its place.
WORKDIR /empty
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=dev
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /out/app ./cmd/sample-app

FROM ${BASE_IMAGE}
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="headrace sample-app" \
      org.opencontainers.image.description="The reference app of Headrace: flights through event-time windows, exactly-once" \
      org.opencontainers.image.source="https://github.com/headrace/headrace" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=build --chown=65532:65532 /empty /data
COPY --from=build /out/app /app
# Below the mount point, since a new file system may bring a lost+found there.
ENV HEADRACE_STATE=pebble \
    HEADRACE_STATE_DIR=/data/state \
    HEADRACE_HTTP_ADDR=:8080
VOLUME ["/data"]
EXPOSE 8080
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
# Whether the process is alive, as /livez says. Whether it is ready, /readyz says: it may have state to restore first.
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s --retries=3 CMD ["/app", "healthcheck"]
ENTRYPOINT ["/app"]
CMD ["run"]
