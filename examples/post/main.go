// Command post sends one HTTP request and prints the answer: the status, the headers and the
// body. The examples use it, so that they need no other HTTP client.
//
//	post URL [BODY [HEADER: VALUE]...]
//
// With a body, post sends POST. Without a body, or with an empty body, it sends GET. It prints the
// body of the answer while it arrives, so that a script can read an event stream.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "post:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: post URL [BODY [HEADER: VALUE]...]")
	}
	method, body := http.MethodGet, ""
	if len(args) > 1 && args[1] != "" {
		method, body = http.MethodPost, args[1]
	}
	r, err := http.NewRequest(method, args[0], strings.NewReader(body))
	if err != nil {
		return err
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
	} else {
		r.Header.Set("Accept", "*/*, text/event-stream")
	}
	for _, header := range args[min(2, len(args)):] {
		name, value, _ := strings.Cut(header, ":")
		r.Header.Set(name, strings.TrimSpace(value))
	}
	resp, err := (&http.Client{Timeout: 5 * time.Minute}).Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var head bytes.Buffer
	if err := resp.Header.Write(&head); err != nil {
		return err
	}
	fmt.Printf("%s\n%s\n", resp.Status, strings.ReplaceAll(head.String(), "\r\n", "\n"))
	_, err = io.Copy(os.Stdout, io.LimitReader(resp.Body, 1<<20))
	fmt.Println()
	return err
}
