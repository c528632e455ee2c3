package cli

import "testing"

// TestVersionOf checks the names of builds that are not releases.
func TestVersionOf(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"v1.2.3", "0eac4d9f12345678", "1.2.3"},
		{"v1.3.0-rc.1", "", "1.3.0-rc.1"},
		{"v0.0.0-20261128121518-0eac4d9f1234", "0eac4d9f12345678", "dev 0eac4d9"},
		{"v1.2.4-0.20261128121518-0eac4d9f1234", "", "dev 0eac4d9"},
		{"v0.0.0-20261128121518-0eac4d9f1234+dirty", "0eac4d9f12345678+modified", "dev 0eac4d9+modified"},
		{"(devel)", "0eac4d9f12345678", "dev 0eac4d9"},
		{"", "", "dev"},
	} {
		if got := versionOf(c[0], c[1]); got != c[2] {
			t.Errorf("%s at %s: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
