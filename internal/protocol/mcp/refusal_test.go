package mcp

import "testing"

func TestIsEcho(t *testing.T) {
	for text, want := range map[string]bool{
		RefusalText(MethodInitialize, "no client"):             true,
		RefusalText(MethodDiscover, "no client"):               true,
		RefusalText(MethodElicit, "no client"):                 false,
		"initialize cannot be answered":                        false,
		"error: " + RefusalText(MethodInitialize, "no client"): false,
		"": false,
	} {
		if IsEcho(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}
