// Places orders of one unit with k6, each with a key of its own, and sends each again until it is told of an order: so
// there are as many orders as were asked for, whatever is killed meanwhile.
//
//   export ORDERS_AUTH_SECRET=...
//   k6 run -e URL=http://localhost:8080 -e TOKEN=$(stock orders token) -e SKU=tea loadtest/k6/orders.js
//
// VUS (30) workers share ORDERS (4000), at URL, or at one of several URLs with commas between them. k6's exit status is
// 99 if an order is missing after PATIENCE (60) seconds.
import http from 'k6/http';
import { sleep } from 'k6';
import { Counter } from 'k6/metrics';

const orders = Number(__ENV.ORDERS || 4000);
const told = new Counter('told');
const again = new Counter('sent_again');

export const options = {
  scenarios: {
    orders: { executor: 'shared-iterations', vus: Number(__ENV.VUS || 30), iterations: orders, maxDuration: '10m' },
  },
  thresholds: { told: [`count==${orders}`] },
};

const urls = (__ENV.URL || 'http://localhost:8080').split(',');
const body = JSON.stringify({ lines: [{ sku: __ENV.SKU || 'tea', quantity: 1 }] });
const patience = Number(__ENV.PATIENCE || 60) * 1000;
const run = Date.now();

export default function () {
  const headers = {
    Authorization: `Bearer ${__ENV.TOKEN}`,
    'Content-Type': 'application/json',
    'Idempotency-Key': `k6-${run}-${__VU}-${__ITER}`,
  };
  const began = Date.now();
  for (let attempt = 0; Date.now() - began < patience; attempt++) {
    const url = urls[(__VU + attempt) % urls.length];
    const reply = http.post(`${url}/v1/orders`, body, { headers, timeout: '15s', tags: { name: 'orders' } });
    if (reply.status === 201) {
      told.add(1);
      return;
    }
    again.add(1);
    sleep(0.1);
  }
}
