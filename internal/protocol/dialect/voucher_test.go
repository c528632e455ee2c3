package dialect

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestVoucher sends calls of both eras to servers of both eras. A server of ours gets the voucher, whatever
// the client has put there, and none if the client is the local user. Other servers
// get what the client has sent.
func TestVoucher(t *testing.T) {
	const own, forged = `"` + mcp.KeyVoucher + `"`, `{"subject":"p:mallory","name":"mallory","proof":"x"}`
	key := identity.NewVoucherKey()
	v, _ := key.Vouch(&identity.Principal{Subject: "k:ci", Seat: "k:ci", Name: "c\"i"})
	traced := []jsonrpc.Field{{Key: mcp.KeyTraceparent, Value: []byte(`"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`)}}
	for meta, sent := range map[string]bool{
		"":                                      false,
		`,"_meta":{}`:                           false,
		`,"_meta":{"a":1}`:                      false,
		`,"_meta":{` + own + `:` + forged + `}`: true,
		`,"_meta":{"a":1,"io.github.dragoman-mcp\/vouche\u0072":` + forged + `,"progressToken":1}`: true,
		`,"_meta":null`: false,
		`,"_meta":7`:    false,
	} {
		for _, from := range []mcp.Revision{mcp.R20241105, mcp.R20251125, mcp.R20260728} {
			params := `{"name":"t"` + meta + `}`
			if from.Modern() {
				if !strings.HasPrefix(meta, `,"_meta":{`) {
					continue // a modern request has _meta
				}
				params = strings.Replace(strings.Replace(params, `"_meta":{`, `"_meta":{`+described+`,`, 1), ",}", "}", 1)
			}
			for to := range mcp.Revision(len(codecs)) {
				if to == mcp.Unknown {
					continue
				}
				c := mustCall(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+params+`}`, from)
				for _, s := range []Stamp{{}, {Trusts: true}, {Trusts: true, Voucher: mcp.VoucherValue(v)}, {Trusts: true, Voucher: mcp.VoucherValue(v), Trace: traced}} {
					s.ID = "42"
					out := string(Request(nil, to, &mcp.Attempt{Call: c}, &s))
					var got struct {
						Params struct {
							Meta map[string]json.RawMessage `json:"_meta"`
						}
					}
					if err := json.Unmarshal([]byte(out), &got); err != nil && s.Voucher != nil {
						t.Fatalf("%s: %v", out, err)
					}
					switch isThere := strings.Contains(out, "/vouche"); {
					case s.Voucher != nil:
						var have identity.Voucher
						if err := json.Unmarshal(got.Params.Meta[mcp.KeyVoucher], &have); err != nil || strings.Contains(out, "mallory") || have != v || !key.Accepts(have) || (s.Trace != nil) != (got.Params.Meta[mcp.KeyTraceparent] != nil) {
							t.Errorf("%v to %v, %s: %s", from, to, meta, out)
						}
					case isThere != (sent && !s.Trusts):
						t.Errorf("%v to %v, trusts %t, %s: %s", from, to, s.Trusts, meta, out)
					}
					if strings.Contains(meta, `"a":1`) != strings.Contains(out, `"a":1`) {
						t.Errorf("%v to %v, %s: lost a member: %s", from, to, meta, out)
					}
				}
			}
		}
	}
}
