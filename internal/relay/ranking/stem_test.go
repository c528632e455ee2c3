package ranking

import (
	"strings"
	"testing"
)

// TestStem has the paper's own examples of its rules. Where a later step shortens the word further, the
// result is that of all steps.
func TestStem(t *testing.T) {
	for _, line := range strings.Split(strings.TrimSpace(`
caresses caress; ponies poni; ties ti; caress caress; cats cat
feed feed; agreed agre; plastered plaster; bled bled; motoring motor; sing sing
conflated conflat; troubled troubl; sized size; hopping hop; tanned tan; falling fall; hissing hiss; fizzed fizz; failing fail; filing file
happy happi; sky sky
relational relat; conditional condit; rational ration; valenci valenc; hesitanci hesit; digitizer digit; conformabli conform
radicalli radic; differentli differ; vileli vile; analogousli analog; vietnamization vietnam; predication predic; operator oper
feudalism feudal; decisiveness decis; hopefulness hope; callousness callous; formaliti formal; sensitiviti sensit; sensibiliti sensibl
triplicate triplic; formative form; formalize formal; electriciti electr; electrical electr; hopeful hope; goodness good
revival reviv; allowance allow; inference infer; airliner airlin; gyroscopic gyroscop; adjustable adjust; defensible defens
irritant irrit; replacement replac; adjustment adjust; dependent depend; adoption adopt; homologou homolog; communism commun
activate activ; angulariti angular; homologous homolog; effective effect; bowdlerize bowdler
probate probat; rate rate; cease ceas; controll control; roll roll
generalizations gener; oscillators oscil; apology apolog; is is; a a`), "\n") {
		for _, pair := range strings.Split(line, ";") {
			in, want, _ := strings.Cut(strings.TrimSpace(pair), " ")
			if got := string(stem([]byte(in))); got != want {
				t.Errorf("%s: %s, want %s", in, got, want)
			}
		}
	}
}
