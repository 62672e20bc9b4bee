package main

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"example.com/stock/handler/access"
	"example.com/stock/handler/access/issuer"
	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/loadtest"
)

func instances() []*failure {
	redis := []stack.Kind{stack.Redis}
	return []*failure{
		{
			Name: "instance-killed", Quick: true, Needs: redis, Instances: 2,
			Make:  func(b *bed) { b.must("kill", b.apps[0].Kill()); b.front = b.apps[1] },
			Mend:  func(b *bed) { b.must("start", b.apps[0].Restart(b.ctx)) },
			Fires: []string{"StockInstanceDown"}, Fails: "curl",
		},
		{
			Name: "bad-deploy", Needs: redis, Instances: 2,
			// The first instance reaches Redis by an address of its own, which then is wrong.
			Own:  throughProxy,
			Make: func(b *bed) { b.link.Refuse(true); b.link.Cut() },
			Mend: func(b *bed) {
				b.does("stock config")
				b.link.Refuse(false)
			},
			Fires: []string{"StockInstanceNotReady"}, Also: "bad-deploy", Confirms: "stock_ready 0",
		},
		{
			Name: "overload", Needs: redis, Factor: ofSales, Prepare: filled("redis"),
			Env: func(b *bed) []string {
				return append(throughProxy(b), "STOCK_REDIS_POOL_SIZE=4", "STOCK_REDIS_QUEUE=16")
			},
			Customers: func(b *bed) { b.customers(8, usualPause, plain, 200) },
			Make: func(b *bed) {
				b.link.Delay(wire.ToClient, 20*time.Millisecond)
				b.leave = b.customers(60, usualPause, plain, 0)
			},
			Mend: func(b *bed) {
				b.leave()
				b.link.Delay(wire.ToClient, 0)
			},
			Fires: with(failing, "StockOverloaded"), Confirms: `problem="overloaded"`,
		},
		{
			Name: "log-without-reader", Needs: redis, Prepare: filled("redis"),
			Env: func(b *bed) []string {
				b.pipe = filepath.Join(b.stack.Dir, "app-1.log")
				b.must("make a pipe", syscall.Mkfifo(b.pipe, 0o600))
				b.readLog()
				return []string{"STOCK_LOG_LEVEL=debug"}
			},
			Customers: func(b *bed) { b.customers(8, time.Millisecond, plain, 100) },
			Make:      func(b *bed) { b.unread.Store(true) },
			Mend:      func(b *bed) { b.unread.Store(false) },
			Fires:     []string{"StockLogDropped"}, Confirms: "stock_log_dropped_total",
		},
		{
			Name: "certificate-near-its-end", Needs: redis, Env: withCertificate,
			Make:  func(b *bed) { b.certificate(13) },
			Mend:  func(b *bed) { b.certificate(60) },
			Fires: []string{"StockCertificateEnds14d"}, Confirms: `setting="relay.webhook_tls.cert"`,
		},
		{
			Name: "certificate-at-its-end", Quick: true, Needs: redis, Env: withCertificate,
			Make:     func(b *bed) { b.certificate(1) },
			Mend:     func(b *bed) { b.certificate(60) },
			Fires:    []string{"StockCertificateEnds2d", "StockCertificateEnds14d"},
			Confirms: `setting="relay.webhook_tls.cert"`,
		},
		{
			Name: "keys-of-tokens-unreadable", Needs: redis, Env: withKeys,
			Make:  func(b *bed) { b.put("keys.json", []byte("<html>")) },
			Mend:  func(b *bed) { b.put("keys.json", b.issuer.JWKS()) },
			Fires: []string{"StockTokenKeysNotRead"}, Confirms: "stock_token_keys_read_timestamp_seconds",
		},

		// Failures that fire nothing.
		{
			Name: "sold-out", Quick: true, Needs: redis, Instances: 2, Prepare: filled("redis"),
			Customers: func(b *bed) { b.customers(4, usualPause, plain, 100) },
			Make: func(b *bed) {
				_, err := b.client(b.apps[0]).SetStock(b.ctx, "redis", sku, 0)
				b.must("set the stock", err)
			},
			Mend: filled("redis"),
		},
		{
			Name: "bad-requests", Needs: redis, Prepare: filled("redis"),
			Customers: func(b *bed) { b.customers(4, usualPause, plain, 100) },
			Make:      func(b *bed) { b.buyBy("/deduct_stock_atomic?sku=" + sku + "&quantity=-1") },
			Mend:      func(b *bed) { b.buyBy(plain) },
		},
		{
			Name: "customer-too-fast", Needs: redis, Env: func(b *bed) []string {
				limits := []string{"STOCK_LIMITS_CUSTOMER_RATE=1", "STOCK_LIMITS_CUSTOMER_BURST=1"}
				return slices.Concat(shop("redis"), withKeys(b), limits)
			},
			Prepare: filled(""),
			Make: func(b *bed) {
				text, err := b.issuer.Token(issuer.Claim{
					Issuer: "issuer", Audience: "stock", Subject: "c", TTL: time.Hour,
					Scopes: []access.Scope{access.OrdersOwn},
				})
				b.must("make a token", err)
				b.bearer = text
				refused := 0
				for range 200 {
					if b.order(b.apps[0]) == http.StatusTooManyRequests {
						refused++
					}
				}
				if refused < 100 {
					b.fatalf("%d of 200 orders were refused, want most of them", refused)
				}
			},
		},
		{
			Name: "fail-over", Factor: usual / 10,
			Env: func(b *bed) []string {
				sentinels, err := b.stack.StartSentinels(b.ctx, stack.SentinelOptions{})
				b.must("start Sentinels", err)
				b.sentinels = sentinels
				return append(shop("redis"), "STOCK_REDIS_ADDRS="+join(sentinels.Addrs()),
					"STOCK_REDIS_MASTER_NAME="+sentinels.Name)
			},
			Prepare: filled(""),
			Make: func(b *bed) {
				for range 2000 { // so many that an order that gets no answer is below every objective
					b.ordered(b.apps[0])
				}
				b.must("kill the master", b.sentinels.Redis[0].Kill())
				_, err := b.sentinels.AwaitMaster(b.ctx, b.sentinels.Redis[0])
				b.must("wait for a new master", err)
				b.eventually("the instance is ready", func() bool {
					_, err := get(b.ctx, b.apps[0].URL+"/readyz")
					return err == nil
				})
				b.eventually("an order is accepted", func() bool { return b.order(b.apps[0]) == http.StatusCreated })
			},
			Also: "fail-over", Confirms: `stock_backend_up{backend="redis"} 1`,
		},
		{
			Name: "rolling-restart", Needs: redis, Instances: 2, Factor: usual / 10, Prepare: filled("redis"),
			Customers: func(b *bed) { b.customers(4, usualPause, plain, 100) },
			Make: func(b *bed) {
				for _, app := range b.apps {
					b.atRest(func() { b.must("restart", app.Restart(b.ctx)) })
				}
			},
		},
	}
}

// put writes a file of the bed in one step.
func (b *bed) put(name string, text []byte) {
	path := filepath.Join(b.stack.Dir, name)
	b.must("write", os.WriteFile(path+".new", text, 0o600))
	b.must("write", os.Rename(path+".new", path))
}

// withKeys returns the settings of customers that are proved by tokens of the bed's issuer.
func withKeys(b *bed) []string {
	_, private, err := ed25519.GenerateKey(nil)
	b.must("make a key", err)
	b.issuer = issuer.New(private)
	b.put("keys.json", b.issuer.JWKS())
	return []string{
		"STOCK_AUTH=tokens", "STOCK_TOKENS_ISSUER=issuer", "STOCK_TOKENS_AUDIENCE=stock",
		"STOCK_TOKENS_KEYS_FILE=" + filepath.Join(b.stack.Dir, "keys.json"),
	}
}

// withCertificate returns the settings of a relay that shows its receiver a certificate. There are no events, so that
// the receiver need not exist.
func withCertificate(b *bed) []string {
	b.certificate(60)
	return append(shop("redis"), "STOCK_RELAY_ENABLED=true", "STOCK_RELAY_SINK=webhook",
		"STOCK_RELAY_WEBHOOK_URL=https://127.0.0.1:1/events", "STOCK_RELAY_WEBHOOK_INTERNAL=true",
		"STOCK_RELAY_WEBHOOK_SECRETS=whsec_"+strings.Repeat("QUJD", 10), "STOCK_RELAY_WEBHOOK_TLS_ENABLED=true",
		"STOCK_RELAY_WEBHOOK_TLS_CERT="+filepath.Join(b.stack.Dir, "pair.pem"),
		"STOCK_RELAY_WEBHOOK_TLS_KEY="+filepath.Join(b.stack.Dir, "pair.pem"))
}

// certificate puts a certificate that ends after that many days in place, with its key in the same file, so that both
// change in one step.
func (b *bed) certificate(days int) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	b.must("make a key", err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "stock"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 0, days),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	b.must("make a certificate", err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	b.must("make a key", err)
	b.put("pair.pem", append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...))
}

// readLog reads the pipe that an instance takes for its log, except while unread is set.
func (b *bed) readLog() {
	f, err := os.OpenFile(b.pipe, os.O_RDWR, 0)
	b.must("open the pipe", err)
	b.after(func() { _ = f.Close() })
	b.readers.Go(func() {
		part := make([]byte, 1<<16)
		for {
			for b.unread.Load() && loadtest.Sleep(b.ctx, usualPause) == nil {
			}
			if _, err := f.Read(part); err != nil {
				return
			}
		}
	})
}
