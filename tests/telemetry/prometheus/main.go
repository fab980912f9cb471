//go:build tools

// Prometheus, which takes metrics by OTLP from version 3 on: `go build` of its program, in the version of go.mod.
package main

import _ "github.com/prometheus/prometheus/cmd/prometheus"
