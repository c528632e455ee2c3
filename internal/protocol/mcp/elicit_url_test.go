package mcp

import (
	"net/url"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// TestM14_RefusedURLs checks refused and accepted URLs.
func TestM14_RefusedURLs(t *testing.T) {
	for url, fit := range map[string]bool{
		`"https://example.com/authorize?x=1&y=http://other#f"`: true,
		`"http://localhost:8080/cb"`:                           true,
		`"HTTPS://Example.COM./x"`:                             true,
		`"https://192.0.2.7/x"`:                                true,
		`"https://[2001:db8::1]:8443/x"`:                       true,
		`"https://xn--bcher-kva.example/x"`:                    true, // Punycode is not misleading
		`"https://example.com/b\u00fccher/%2F"`:                true,
		`"https://1password/x"`:                                true,
		`"https://127.0x1/"`:                                   false,
		`"javascript:alert(1)"`:                                false,
		`"JavaScript:alert(1)"`:                                false,
		`" javascript:alert(1)"`:                               false,
		`"java\nscript:alert(1)"`:                              false,
		`"\u0001javascript:alert(1)"`:                          false,
		`"file:///etc/passwd"`:                                 false,
		`"data:text/html,<script>1</script>"`:                  false,
		`"vbscript:x"`:                                         false,
		`"vscode://file/x"`:                                    false,
		`"ms-msdt:/id"`:                                        false,
		`"ftp://example.com/"`:                                 false,
		`"//example.com/x"`:                                    false,
		`"/x"`:                                                 false,
		`"example.com"`:                                        false,
		`""`:                                                   false,
		`"--flag"`:                                             false,
		`"https:example.com"`:                                  false,
		`"https:///x"`:                                         false,
		`"https://bank.example@evil.example/"`:                 false,
		`"https://bank.example:443@evil.example/"`:             false,
		`"https://bank.example%40evil.example/"`:               false,
		`"https://evil.example\\@bank.example/"`:               false,
		`"https:\\\\evil.example"`:                             false,
		`"https://b\u0430nk.example/"`:                         false, // a Cyrillic letter that looks like the Latin a
		`"https://bank.example\u2044evil.example/"`:            false,
		`"https://\u202eelpmaxe.knab/"`:                        false,
		`"https://2130706433/"`:                                false,
		`"https://0x7f.1/"`:                                    false,
		`"https://127.1/"`:                                     false,
		`"https://0177.0.0.1/"`:                                false,
		`"https://example.com/x y"`:                            false,
		`7`:                                                    false,
		`null`:                                                 false,
	} {
		raw := []byte(`{"mode":"url","message":"m","elicitationId":"1","url":` + url + `}`)
		if why := (*Own)(nil).URLProblem(raw, jsonrpc.Whole(raw)); (why == "") != fit {
			t.Errorf("%s: %q", url, why)
		}
	}
	for params, fit := range map[string]bool{
		`{"message":"m","requestedSchema":{"type":"object","properties":{"url":{"type":"string","default":"javascript:1"}}}}`: true,
		`{"mode":"form","message":"javascript:alert(1)"}`:                                                                     true,
		`{"mode":"url","message":"m"}`:          false,
		`{"mode":"later","url":"javascript:1"}`: false,
		`{"message":"m","url":"javascript:1"}`:  false,
	} {
		raw := []byte(params)
		if why := (*Own)(nil).URLProblem(raw, jsonrpc.Whole(raw)); (why == "") != fit {
			t.Errorf("%s: %q", params, why)
		}
	}
}

// TestOwnURLs checks which URLs lead to Dragoman itself, and which say where they lead.
func TestOwnURLs(t *testing.T) {
	o := &Own{}
	for _, port := range []int{7300, 80} {
		o.Listen(port)
		for address, want := range map[string]int{
			"http://127.0.0.1:7300/console/": 7300, "http://LOCALHOST:7300": 7300, "http://localhost.:7300/": 7300, "http://dragoman-x.localhost:7300/x": 7300, "http://127.9.9.9:07300/": 7300,
			"http://[::1]:7300/": 7300, "http://[::ffff:127.0.0.1]:7300/": 7300, "http://0.0.0.0:7300/": 7300, "http://[::]:7300/": 7300, "https://localhost:7300/": 7300,
			"http://localhost.localdomain:7300/": 7300, "http://localhost6.localdomain6.:7300/": 7300, "http://[::127.0.0.1]:7300/": 7300, "http://IP6-localhost:7300/": 7300, "http://ip6-loopback:7300/": 7300, "http://localhost4:7300/": 7300,
			"http://localhost6:7300/": 7300, "http://x.localhost.localdomain:7300/": 7300, "http://localhost4.localdomain4:7300/": 7300, "http://loopback:7300/": 7300, "http://[::1%25lo]:7300/": 7300,
			"http://localhost/": 80, "http://localhost:80/": 80, "https://localhost/": 0, "http://localhost:8080/console/": 0, "http://example.com:7300/": 0, "http://192.168.1.2:7300/": 0,
		} {
			raw := []byte(`{"mode":"url","url":"` + address + `"}`)
			if why := o.URLProblem(raw, jsonrpc.Whole(raw)); (why != "") != (port == want) {
				t.Errorf("%s with the port %d: %q", address, port, why)
			}
		}
	}
	for address, want := range map[string]string{
		"http://127.0.0.1/": YourMachine, "http://[::1]/": YourMachine, "http://a.Localhost:1/": YourMachine, "http://[::]/": YourMachine, "http://localhost.localdomain/": YourMachine, "http://[::127.0.0.1]/": YourMachine, "http://ip6-localhost/": YourMachine, "http://127.1.2.3/": YourMachine, "http://[::ffff:0:127.0.0.1]/": YourMachine,
		"http://10.1.2.3/": YourNetwork, "http://192.168.0.1/": YourNetwork, "http://172.16.0.1/": YourNetwork, "http://[fd00::1]/": YourNetwork, "http://169.254.169.254/": YourNetwork,
		"http://[fe80::1]/": YourNetwork, "http://[::ffff:10.0.0.1]/": YourNetwork, "http://100.64.0.1/": YourNetwork, "http://nas/": YourNetwork, "http://printer.local/": YourNetwork, "http://a.internal/": YourNetwork, "http://b.home.arpa/": YourNetwork,
		"https://example.com/": "", "http://localhost.example.com/": "", "http://172.32.0.1/": "", "http://8.8.8.8/": "", "http://[2001:db8::1]/": "", "http://local.example/": "", "http://localhost.localdomain.example/": "", "http://mylocalhost.localdomain.example/": "", "http://[::8.8.8.8]/": "", "http://[::10.0.0.1]/": YourNetwork, "http://a.localdomain/": YourNetwork, "http://a.lan/": "",
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := PlaceOf(u); got != want {
			t.Errorf("%s: %q", address, got)
		}
	}
}
