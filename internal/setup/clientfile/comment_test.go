package clientfile

import "testing"

// TestCommentAtEnd reads JSON whose last line is a comment without a line end.
func TestCommentAtEnd(t *testing.T) {
	for text, valid := range map[string]bool{
		`{"a":1} // x`: true, "{\"a\":1}\n//": true, `{"a":1} /* x */`: true, `{"a":1} /* x`: false, `{"a":1 // x`: false,
	} {
		if _, err := parseJSON("f", []byte(text)); (err == nil) != valid {
			t.Errorf("%s: %v", text, err)
		}
	}
}
