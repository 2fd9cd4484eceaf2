package archtest

import (
	"os"
	"testing"
)

func TestRepository(t *testing.T) {
	t.Parallel()
	found, err := check(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Error(v)
	}
}
