package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// healthTimeout bounds a health check.
const healthTimeout = 3 * time.Second

// healthcheckCommand asks the process that runs with the same settings whether it is alive: for images without a shell.
func healthcheckCommand(ctx context.Context, p process) int {
	c, code := configured(inHealthcheck, "healthcheck", p)
	if c == nil {
		return code
	}
	if c.HTTPAddr == "" {
		fmt.Fprintln(p.stderr, "sample-app healthcheck: http.addr is empty, so that nobody can be asked: set it here as for run")
		return exitUsage
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	answer, err := ask(ctx, c.HTTPAddr, "/livez")
	if err != nil {
		fmt.Fprintf(p.stderr, "sample-app healthcheck: %v\n", err)
		return exitFail
	}
	fmt.Fprintln(p.stdout, answer)
	return exitOK
}

// ask gets a page of the process that listens at an address. An answer other than 200 is an error that has it.
func ask(ctx context.Context, addr, page string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("http.addr: %w", err)
	}
	if host == "" || net.ParseIP(host) != nil && net.ParseIP(host).IsUnspecified() {
		host = "127.0.0.1" // it listens everywhere
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+page, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s says %s: %s", page, resp.Status, body)
	}
	return string(body), nil
}
