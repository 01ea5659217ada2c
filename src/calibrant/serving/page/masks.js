"use strict";
// Shows a mask: the picture under the colours of its classes, and the confidence of each pixel.

const REFUSED = 255; // In the picture of classes: a pixel that is not accepted.

// The colour of a class: hues of neighbouring numbers are far apart.
function classColor(number) {
  const hue = (number * 137.508) % 360;
  const channel = (shift) => {
    const k = (shift + hue / 30) % 12;
    return Math.round(255 * (0.5 - 0.4 * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [channel(0), channel(8), channel(4)];
}

// Decode a picture as it is stored: no rotation and no colour profile, as the model sees it.
function bitmap(url) {
  const bytes = Uint8Array.from(atob(url.slice(url.indexOf(",") + 1)), (c) => c.charCodeAt(0));
  return createImageBitmap(new Blob([bytes]), { imageOrientation: "none", colorSpaceConversion: "none" });
}

function context(canvas, width, height) {
  canvas.width = width;
  canvas.height = height;
  return canvas.getContext("2d", { willReadFrequently: true });
}

async function values(base64, width, height) {
  const drawn = context(document.createElement("canvas"), width, height);
  drawn.drawImage(await bitmap(base64), 0, 0);
  return drawn.getImageData(0, 0, width, height).data;
}

async function drawMask(prediction, picture) {
  const { width, height } = prediction;
  const [classes, shares] = await Promise.all([
    values(prediction.mask, width, height),
    values(prediction.confidence_map, width, height),
  ]);
  const over = context($("classes"), width, height);
  over.drawImage(await bitmap(picture), 0, 0, width, height);
  paint(over, width, height, (place, old) => {
    if (classes[place] === REFUSED) return striped(place / 4, width) ? [255, 255, 255] : [60, 60, 60];
    return classColor(classes[place]).map((value, channel) => 0.45 * old[channel] + 0.55 * value);
  });
  const steps = shadeColors();
  paint(context($("confidences"), width, height), width, height, (place) => steps[shade(shares[place] / 255)]);
}

// Pixels for review have stripes, which are seen without colours too.
function striped(pixel, width) {
  return (Math.floor(pixel / width) + (pixel % width)) % 6 < 3;
}

function paint(drawn, width, height, color) {
  const image = drawn.getImageData(0, 0, width, height);
  for (let place = 0; place < image.data.length; place += 4) {
    const old = [image.data[place], image.data[place + 1], image.data[place + 2]];
    image.data.set([...color(place, old), 255], place);
  }
  drawn.putImageData(image, 0, 0);
}

// The colours of confidences that the page's style has, in light and in dark.
function shadeColors() {
  const style = getComputedStyle(document.documentElement);
  const found = {};
  for (const step of ["s0", "s1", "s2", "s3", "s4"]) {
    const hex = style.getPropertyValue("--" + step).trim();
    found[step] = [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16));
  }
  return found;
}

function maskRows(prediction) {
  const head = element("tr");
  head.append(column("Class"), column("Pixels", "number"), column("Confidence", "number"));
  const made = Object.entries(prediction.classes).map(([name, numbers]) => {
    const row = element("tr");
    const cell = element("td");
    const swatch = element("span", "", "swatch");
    swatch.style.backgroundColor = `rgb(${classColor(about.labels.indexOf(name)).join(",")})`;
    cell.append(swatch, document.createTextNode(name));
    row.append(cell, element("td", numbers.pixels.toLocaleString("en"), "number"));
    row.append(element("td", percent(numbers.confidence), "number"));
    return row;
  });
  return [head, ...made];
}
