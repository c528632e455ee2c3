package config

import (
	"strings"
	"testing"
)

// TestVaultKey checks where the vault's key may be, and that a key which stands in the file by mistake isn't
// shown. The variable that has the key is inherited by no server.
func TestVaultKey(t *testing.T) {
	const key = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
	for _, c := range []struct{ setting, want, bad string }{
		{`{}`, "", ""},
		{`{key: keyring}`, "keyring", ""},
		{`{key: "env:VAULT_KEY"}`, "env:VAULT_KEY", ""},
		{`{key: "${WHERE}"}`, "keyring", ""},
		{`{key: "` + key + `"}`, "", "does not say where the vault's key is; write keyring or env:NAME"},
		{`{key: "${KEY}"}`, "", "does not say where the vault's key is"},
		{`{key: "env:"}`, "", "does not say where"},
		{`{key: "env:` + key + `"}`, "", "does not say where"},
		{`{key: ""}`, "", "does not say where"},
		{`{kye: "` + key + `"}`, "", "unknown key"},
		{key, "", "must be a mapping"},
	} {
		s, problems := Parse("f", []byte(`
mcpServers: {a: {command: x}, b: {command: x}}
dragoman: {vault: `+c.setting+`, inheritEnv: ["*"], servers: {b: {inheritEnv: [VAULT_KEY]}}}`), env("WHERE=keyring", "KEY="+key))
		if c.bad != "" {
			text := listing(problems)
			for _, p := range problems {
				text += p.Source
			}
			if s != nil || !strings.Contains(text, c.bad) || strings.Contains(text, key) {
				t.Errorf("%s: %s", c.setting, text)
			}
			continue
		}
		if s == nil || len(problems) > 0 || s.VaultKey != c.want {
			t.Errorf("%s: %+v, %s", c.setting, s, listing(problems))
			continue
		}
		again, problems := Parse("f", s.AppendYAML(nil), nil)
		if again == nil || again.VaultKey != c.want {
			t.Errorf("%s is printed as\n%s%s", c.setting, s.AppendYAML(nil), listing(problems))
		}
		other, _ := Parse("f", []byte(`
mcpServers: {a: {command: x}, b: {command: x}}
dragoman: {inheritEnv: ["*"], servers: {b: {inheritEnv: [VAULT_KEY]}}}`), nil)
		if got := other.Since(s); strings.Join(got.Settings, " ") != map[bool]string{true: "vault.key"}[c.want != ""] || len(got.Kept) != 2 {
			t.Errorf("%s: changed are %+v", c.setting, got)
		}
		for _, srv := range s.Servers {
			if srv.Inherits("VAULT_KEY") == strings.HasPrefix(c.want, "env:") || srv.Name == "a" && !srv.Inherits("OTHER") {
				t.Errorf("%s: what %s inherits", c.setting, srv.Name)
			}
		}
	}
}
