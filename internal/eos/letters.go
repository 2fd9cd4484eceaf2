package eos

// Letters is the name of the checker of dead letters.
const Letters = "letters"

// CheckLetters wants each of the values that could not be processed to be in the dead-letter topic once, and nothing else.
func CheckLetters(rep *Report, values []string, letters []Record) {
	want := make(map[string]bool)
	for _, v := range values {
		want[v] = true
	}
	at := make(map[string]Record)
	for _, r := range letters {
		v := string(r.Value)
		switch first, twice := at[v]; {
		case !want[v]:
			rep.add(Letters, Wrong, "%s: %q is not to be left out", r, v)
		case twice:
			rep.add(Letters, Duplicated, "%s: %q is at %s already", r, v, first)
		}
		at[v] = r
	}
	for _, v := range values {
		if _, ok := at[v]; !ok {
			rep.add(Letters, Lost, "%q is in no dead letter", v)
		}
	}
}
