package jsonrpc

import "testing"

func TestScanRequest(t *testing.T) {
	m, err := Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if m.Kind != Request || m.ID != "1" || m.Method != "tools/call" {
		t.Fatalf("%+v", m)
	}
	if s, _ := Text(m.Raw, m.Param("name")); s != "a" {
		t.Fatal(s)
	}
	var e Edits
	e.Object(m.Raw, m.Params, func(k []byte) bool { return string(k) == "name" }, Field{"x", []byte("2")}, Field{"y", []byte("3")})
	if got := string(Splice(nil, m.Raw, &e)); got != `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"x":2,"y":3}}` {
		t.Fatal(got)
	}
}
