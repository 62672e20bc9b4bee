package outbox

import (
	"encoding/base64"
	"net/http"
	"net/netip"
	"testing"
	"time"
)

// TestSign uses the example of the standard's own libraries.
func TestSign(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	sign(h, "msg_p5jXN8AQM9LWM0D4loKWxJek", []byte(`{"test": 2432232314}`), time.Unix(1614265330, 0), [][]byte{key})
	if got := h.Get("Webhook-Signature"); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Error(got)
	}
}

func TestIsPublic(t *testing.T) {
	for address, want := range map[string]bool{
		"0.0.0.0": false, "0.255.255.255": false, "1.0.0.0": true, "9.255.255.255": true, "10.0.0.0": false,
		"10.255.255.255": false, "11.0.0.0": true, "100.63.255.255": true, "100.64.0.0": false, "100.127.255.255": false,
		"100.128.0.0": true, "126.255.255.255": true, "127.0.0.1": false, "128.0.0.0": true, "169.253.255.255": true,
		"169.254.169.254": false, "169.255.0.0": true, "172.15.255.255": true, "172.16.0.0": false, "172.31.255.255": false,
		"172.32.0.0": true, "192.0.0.1": false, "192.0.1.0": true, "192.0.2.1": false, "192.88.99.1": false,
		"192.167.255.255": true, "192.168.0.1": false, "192.169.0.0": true, "198.17.255.255": true, "198.18.0.0": false,
		"198.19.255.255": false, "198.20.0.0": true, "198.51.100.1": false, "203.0.113.1": false, "223.255.255.255": true,
		"224.0.0.1": false, "240.0.0.1": false, "255.255.255.255": false,
		"::": false, "::1": false, "::7f00:1": false, "::ffff:10.0.0.1": false, "::ffff:8.8.8.8": true, "::ffff:0:a00:1": false,
		"64:ff9b::a00:1": false, "64:ff9b:1::1": false, "100::1": false, "1fff::1": false, "2001::1": false, "2001:1ff::1": false,
		"2001:200::1": true, "2001:db8::1": false, "2001:db9::1": true, "2002:a00:1::1": false, "2003::1": true,
		"2606:4700::1": true, "3fff::1": false, "3fff:1000::1": true, "4000::1": false, "fc00::1": false, "fd00::1": false,
		"fe80::1": false, "fe80::1%eth0": false, "fec0::1": false, "ff02::1": false,
	} {
		if got := isPublic(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}

// FuzzIsPublic: the standard library knows some of the addresses that are not public, and an address is what its text is.
func FuzzIsPublic(f *testing.F) {
	for _, address := range []string{"10.0.0.1", "::ffff:10.0.0.1", "fd00::1", "169.254.169.254", "2606:4700::1"} {
		f.Add(netip.MustParseAddr(address).AsSlice())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		if u := a.Unmap(); isPublic(a) && (!u.IsGlobalUnicast() || u.IsPrivate()) {
			t.Errorf("%s is taken for public", a)
		}
		if refuseInternal("", netip.AddrPortFrom(a, 443).String(), nil) == nil != isPublic(a) {
			t.Errorf("%s as text is another address", a)
		}
	})
}
