package hookjail

import "testing"

func TestOnlyOwnDaemonsAndRootsAreBelieved(t *testing.T) {
	for _, pair := range [][2]int{{1000, 1000}, {0, 1000}, {0, 0}} {
		if err := believed(pair[0], pair[1]); err != nil {
			t.Errorf("%v: %v", pair, err)
		}
	}
	for _, pair := range [][2]int{{1001, 1000}, {1000, 0}, {65534, 0}} {
		if believed(pair[0], pair[1]) == nil {
			t.Errorf("%v is believed", pair)
		}
	}
}
