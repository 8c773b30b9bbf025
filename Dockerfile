# syntax=docker/dockerfile:1

# Builds one static binary and puts it, alone, into an image without a shell.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION=dev
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags="-s -w -X fanfare/app.buildVersion=$VERSION" -o /out/fanfare . \
    && mkdir /out/data

# Only certificates, time zones and /etc/passwd; the user is 65532, not root.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/fanfare /usr/local/bin/fanfare
# An embedded database, if one is used, lives in /data: mount a volume there. There is no redis-server here, so an
# embedded Redis is the one in memory: give a server that matters a FANFARE_REDIS_URL.
COPY --from=build --chown=65532:65532 /out/data /data
WORKDIR /data
USER 65532:65532
ENV FANFARE_ADDR=0.0.0.0:8080
EXPOSE 8080
# No shell here: the binary asks itself.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["/usr/local/bin/fanfare", "healthcheck"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/fanfare"]
