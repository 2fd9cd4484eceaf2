package data_test

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"io"
	"testing"

	"github.com/headrace/headrace/cmd/sample-app/data"
)

func plain(t *testing.T, gz []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(gz))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The files must be whole, and every origin must be found among the airports: the sample joins the two.
func TestFilesAreWhole(t *testing.T) {
	t.Parallel()
	var flights []struct{ Origin string }
	if err := json.Unmarshal(plain(t, data.Flights), &flights); err != nil {
		t.Fatal(err)
	}
	if len(flights) != 20_000 {
		t.Errorf("%d flights, want 20000", len(flights))
	}
	rows, err := csv.NewReader(bytes.NewReader(plain(t, data.Airports))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1+3376 {
		t.Errorf("%d lines of airports, want a header and 3376", len(rows))
	}
	known := map[string]bool{}
	for _, r := range rows[1:] {
		known[r[0]] = true
	}
	origins := map[string]bool{}
	for _, f := range flights {
		origins[f.Origin] = true
		if !known[f.Origin] {
			t.Errorf("origin %q is not among the airports", f.Origin)
		}
	}
	if len(origins) != 220 {
		t.Errorf("%d origins, want 220", len(origins))
	}
}
