"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const make = (name, props = {}, ...children) => {
    const element = Object.assign(document.createElement(name), props);
    element.append(...children);
    return element;
  };
  const REMOVED = "rgba(38, 58, 110, 0.85)"; // blue, which also shows where an image is black
  let chosen = 0;

  const buttons = data.images.map((image, index) => make("button",
    { type: "button", className: "thumb", ariaLabel: `Validation image ${image.number}`, onclick: () => { chosen = index; show(); } },
    make("img", { src: image.source, alt: "" })));
  byId("images").append(...buttons);

  const figures = data.methods.map((method) => {
    const canvas = make("canvas"), count = make("span");
    canvas.setAttribute("role", "img");
    byId("methods").append(make("figure", {}, canvas, make("figcaption", { title: method.run }, make("strong", {}, method.title), " ", count)));
    return { method, canvas, count };
  });

  // Patches after a block: those of the last reducing block up to it, all before the first one.
  const patchesAfter = (kept, block, total) => {
    const layers = Object.keys(kept).map(Number).filter((layer) => layer <= block);
    return layers.length ? kept[Math.max(...layers)] : "1".repeat(total);
  };

  const draw = (picture, image, block) => {
    const [rows, columns] = image.grid;
    for (const { method, canvas, count } of figures) {
      const patches = patchesAfter(method.kept[chosen], block, rows * columns);
      canvas.width = picture.naturalWidth;
      canvas.height = picture.naturalHeight;
      const context = canvas.getContext("2d");
      context.drawImage(picture, 0, 0);
      context.fillStyle = REMOVED;
      const [width, height] = [canvas.width / columns, canvas.height / rows];
      [...patches].forEach((bit, place) => {
        if (bit === "0") context.fillRect((place % columns) * width, Math.floor(place / columns) * height, width, height);
      });
      const left = [...patches].filter((bit) => bit === "1").length;
      count.textContent = `${left} of ${rows * columns}`;
      canvas.setAttribute("aria-label", `${method.title}: ${left} of ${rows * columns} patches left after block ${block}`);
    }
  };

  const show = () => {
    const block = Number(byId("block").value), image = data.images[chosen];
    byId("shown").textContent = block;
    buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(index === chosen)));
    const picture = buttons[chosen].querySelector("img");
    picture.decode().then(() => draw(picture, image, block));
  };
  byId("block").addEventListener("input", show);
  show();
})();
