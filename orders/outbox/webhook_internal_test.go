package outbox

import (
	"encoding/base64"
	"net/http"
	"net/netip"
	"strings"
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

// TestIsPublic: the first and the last addresses of special networks, and those beside them.
func TestIsPublic(t *testing.T) {
	for addresses, want := range map[string]bool{`
		1.0.0.0 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 169.253.255.255
		169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0
		223.255.255.255 ::ffff:8.8.8.8 2001:200::1 2001:db9::1 2003::1 2606:4700::1 3fff:1000::1`: true, `
		0.0.0.0 0.255.255.255 10.0.0.0 10.255.255.255 100.64.0.0 100.127.255.255 127.0.0.1 169.254.169.254 172.16.0.0
		172.31.255.255 192.0.0.1 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.0 198.19.255.255 198.51.100.1 203.0.113.1
		224.0.0.1 240.0.0.1 255.255.255.255 :: ::1 ::7f00:1 ::ffff:10.0.0.1 ::ffff:0:a00:1 64:ff9b::a00:1 64:ff9b:1::1
		100::1 1fff::1 2001::1 2001:1ff::1 2001:db8::1 2002:a00:1::1 3fff::1 4000::1 fc00::1 fd00::1 fe80::1
		fe80::1%eth0 fec0::1 ff02::1`: false} {
		for _, address := range strings.Fields(addresses) {
			if got := isPublic(netip.MustParseAddr(address)); got != want {
				t.Errorf("%s: %v", address, got)
			}
		}
	}
}
