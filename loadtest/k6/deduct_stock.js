// Sells over HTTP with k6, and counts the replies by what they mean.
//
//   stock verdict --sku stock --set 100
//   k6 run -e URL=http://localhost:8080 -e ENDPOINT=/deduct_stock -e SKU=stock loadtest/k6/deduct_stock.js >k6.txt
//   stock verdict --sku stock --from k6.txt
//
// VUS (30) workers share REQUESTS (3000). Sold out and busy are answers, not failures; a threshold is missed, with k6's exit status 99, if there is
// any other.
import http from 'k6/http';
import { check } from 'k6';
import { Counter } from 'k6/metrics';

const accepted = new Counter('accepted');
const soldOut = new Counter('sold_out');
const busy = new Counter('busy');
const other = new Counter('other');

http.setResponseCallback(http.expectedStatuses(200, 409, 503));

export const options = {
  scenarios: {
    sale: {
      executor: 'shared-iterations',
      vus: Number(__ENV.VUS || 30),
      iterations: Number(__ENV.REQUESTS || 3000),
      maxDuration: '10m',
    },
  },
  thresholds: {
    other: ['count==0'],
    http_req_failed: ['rate==0'],
  },
};

const base = __ENV.URL || 'http://localhost:8080';
const endpoint = __ENV.ENDPOINT || '/deduct_stock';
const url = `${base}${endpoint}?sku=${encodeURIComponent(__ENV.SKU || 'stock')}&quantity=${__ENV.QUANTITY || 1}`;

export default function () {
  const reply = http.post(url, null, { timeout: '60s', tags: { name: endpoint } });
  const meaning = { 200: accepted, 409: soldOut, 503: busy };
  (meaning[reply.status] || other).add(1);
  check(reply, {
    'is an answer': (r) => r.status in meaning,
    'an accepted one has its order': (r) => r.status !== 200 || Boolean(r.json('order_id')),
  });
}
