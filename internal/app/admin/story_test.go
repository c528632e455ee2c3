package admin

import "testing"

func TestReasonIn(t *testing.T) {
	for answer, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no \"such\" tool"}}`:                                                                 `no "such" tool`,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"image","data":"AA=="},{"type":"text","text":"disk full"},{"text":"x"}],"isError":true}}`: "disk full",
		`{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}`:                                                                               "",
		`{"jsonrpc":"2.0","id":1,"result":{"content":"disk full","isError":true}}`:                                                                      "",
		`[]`: "",
		``:   "",
	} {
		if got := reasonIn([]byte(answer)); got != want {
			t.Errorf("%s: %q, not %q", answer, got, want)
		}
	}
}
