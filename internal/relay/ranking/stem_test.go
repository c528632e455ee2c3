package ranking

import (
	"strings"
	"testing"
)

// TestStem has the paper's own examples of the steps 1 and 5. Where step 5 shortens the word further, the
// result is that of both.
func TestStem(t *testing.T) {
	for _, line := range strings.Split(strings.TrimSpace(`
caresses caress; ponies poni; ties ti; caress caress; cats cat
feed feed; agreed agre; plastered plaster; bled bled; motoring motor; sing sing
conflated conflat; troubled troubl; sized size; hopping hop; tanned tan; falling fall; hissing hiss; fizzed fizz; failing fail; filing file
happy happi; sky sky
probate probat; rate rate; cease ceas; controll control; roll roll
issues issu; issue issu; files file; plane plane; plan plan; is is; a a`), "\n") {
		for _, pair := range strings.Split(line, ";") {
			in, want, _ := strings.Cut(strings.TrimSpace(pair), " ")
			if got := string(stem([]byte(in))); got != want {
				t.Errorf("%s: %s, want %s", in, got, want)
			}
		}
	}
}
